package deliveries

// SetHastenSlice sets how many deliveries one transaction hastens.
func (s *Store) SetHastenSlice(n int) { s.hastenSlice = n }
