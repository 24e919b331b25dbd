package sq

// BufferedBytes tells what a client's budget has given out.
func BufferedBytes(c *Client) int { return c.budget.Used() }
