"""What requests and answers of the HTTP API hold; the OpenAPI document is made from it."""
