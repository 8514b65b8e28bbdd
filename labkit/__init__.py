"""What every lab shares: the switch, the scoreboard, starters, the mistakes bank, failure text."""
