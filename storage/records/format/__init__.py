"""Record batches and messages: bytes in, records out, and back."""
