package filled

// Spread is spread, for tests.
var Spread = spread
