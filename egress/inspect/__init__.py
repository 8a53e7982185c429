"""Facts from the bodies of requests.

Pure: bytes come in, values come out. A kind of body, such as GraphQL, is a folder or file of its own beside
`inspector`, which has the interface. Nothing here knows a rule: `egress.rules` has the predicates on facts.
"""
