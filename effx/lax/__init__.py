import effx.handlers.evaluate
