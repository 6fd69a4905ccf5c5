"""What a value is: arrays, boxes of handlers, constants that are still on the host, and the classes of dtypes."""
