"""What a release is made with: the bill of materials, and the hashes of what is installed. Not part of the product."""
