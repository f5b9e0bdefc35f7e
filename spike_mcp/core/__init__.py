"""Pure rules: functions of values. No files, no processes, no clock, no randomness."""
