"""From a report to text: one pure function a format."""
