"""Commands that query and correct memory; each calls one function of `service.memory`, without a query of its own."""
