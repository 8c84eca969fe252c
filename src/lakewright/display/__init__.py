"""Values for people: numbers in words, markup that escapes what it shows, and results as notebooks show them."""
