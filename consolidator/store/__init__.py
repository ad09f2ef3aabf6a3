"""Every query. The caller owns the transaction: each function takes the driver connection it is to run on."""
