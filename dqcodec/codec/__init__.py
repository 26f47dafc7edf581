"""Images to bytes and back, by the methods that suit them; the library."""
