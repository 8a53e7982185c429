"""GitHub's GraphQL API: the repositories that a document reaches."""
