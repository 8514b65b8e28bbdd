"""What lab 02's learner reads and does not write: model shapes, the log reader, the comparison."""
