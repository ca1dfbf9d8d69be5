"""`groups`: what consumer groups have committed, and committing for them."""
