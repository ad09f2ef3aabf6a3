"""Tables and shapes, one noun a file. Nothing here reads or writes anything."""
