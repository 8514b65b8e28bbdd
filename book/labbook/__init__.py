"""The book's mdBook preprocessor: numbers, code, figures and formulas come from the labs."""
