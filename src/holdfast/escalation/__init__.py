"""Messages about what went wrong: what they say (`facts`), when answers are due (`clock`), and one form per channel."""
