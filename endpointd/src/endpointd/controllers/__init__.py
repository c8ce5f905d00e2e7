"""The three controllers and what they share: which pods a service has, and what is published of a pod."""
