"""Other programs' settings: what `install` changes in them, as a diff, and takes back."""
