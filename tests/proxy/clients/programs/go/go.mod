module program

go 1.19
