"""The laboratory beside the package: what measures, draws and simulates; no layer needs it."""
