"""Classes of values: arrays, boxes of handlers, constants on the host, and the classes of dtypes."""
