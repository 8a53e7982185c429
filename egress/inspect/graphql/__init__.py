"""GraphQL over HTTP: the operations of a request and their root fields."""
