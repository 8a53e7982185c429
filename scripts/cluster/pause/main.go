// The first process of every pod: it holds the pod's network, and reaps what the other containers leave.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if child, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); child <= 0 {
				break
			}
		}
	}
}
