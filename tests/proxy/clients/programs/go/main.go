// Asks by way of net/http, which is told nothing: what it needs to know is in its environment.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if err := ask(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(verb, url string, files []string) error {
	request, err := asked(verb, url, files)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		// Over HTTP/2 there is no reason phrase, and Status holds the usual one.
		return errors.New(answer.Status + " " + answer.Header.Get("Egress-Denied"))
	}
	// Copies what is there as soon as it is there.
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func asked(verb, url string, files []string) (*http.Request, error) {
	if verb != "put" {
		return http.NewRequest(http.MethodGet, url, nil)
	}
	file, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	return http.NewRequest(http.MethodPut, url, file)
}
