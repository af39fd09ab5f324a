"""The linearizability checker's methods: from ops to calls, and each way to judge a key."""
