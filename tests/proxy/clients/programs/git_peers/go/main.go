// Push one ref by go-git: `push FOLDER URL SOURCE TARGET [force]`.
package main

import (
	"errors"
	"fmt"
	"os"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
)

func push(folder, url, source, target string, force bool) error {
	repository, err := git.PlainOpen(folder)
	if err != nil {
		return err
	}
	remote, err := repository.CreateRemoteAnonymous(&config.RemoteConfig{Name: "anonymous", URLs: []string{url}})
	if err != nil {
		return err
	}
	spec := source + ":" + target
	if force {
		spec = "+" + spec
	}
	err = remote.Push(&git.PushOptions{
		RemoteName: "anonymous",
		RefSpecs:   []config.RefSpec{config.RefSpec(spec)},
		Progress:   os.Stderr,
	})
	if errors.Is(err, git.NoErrAlreadyUpToDate) {
		return nil
	}
	return err
}

func main() {
	force := len(os.Args) > 5 && os.Args[5] == "force"
	if err := push(os.Args[1], os.Args[2], os.Args[3], os.Args[4], force); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
