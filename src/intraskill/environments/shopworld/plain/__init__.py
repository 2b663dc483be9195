"""The plain shop: one-word attributes and short profiles, which a policy of a million weights can read."""
