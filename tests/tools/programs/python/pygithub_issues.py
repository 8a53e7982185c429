"""Issues and a pull request, by the library as its documentation shows it."""

from __future__ import annotations

import sys

import github  # type: ignore[import-not-found]  # fetched by the tests that need it

hub = github.Github(auth=github.Auth.Token(sys.argv[1]))
sys.stdout.write(f"{hub.get_user().login}\n")
repository = hub.get_repo("acme/widgets")
sys.stdout.write(f"{[issue.title for issue in repository.get_issues()]}\n")
sys.stdout.write(f"{repository.create_issue('A second issue').number}\n")
sys.stdout.write(f"{repository.create_pull('main', 'feature', title='A change', body='').html_url}\n")
