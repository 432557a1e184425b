package prepare

// elementSection rewrites the functions that tables start with. A segment
// begins with three flags: passive or declarative, with a table index or
// declarative, expressions instead of function indices.
func (p *preparer) elementSection(r *reader, out []byte) []byte {
	p.elements = r.count()
	out = appendU32(out, uint32(p.elements))
	for range p.elements {
		at := r.at
		flags := r.u32()
		if flags > 7 {
			r.fail(at, "element segment of kind %#x is not known", flags)
		}
		out = appendU32(out, flags)
		place := uint64(0)
		if flags&1 == 0 {
			if flags&2 != 0 {
				out = appendU32(out, r.index("table", p.tables))
			}
			peek := *r
			place = uint64(p.offset(&peek))
			p.calls.fixed = p.calls.fixed && peek.ok() && place <= uint64(len(p.calls.elements))
			out = p.constant(r, out)
		} else {
			p.calls.fixed = false // there is no need of it but for what changes a table
		}
		if flags&3 != 0 {
			at := r.at
			if flags&4 != 0 {
				kind := p.refType(r)
				p.calls.fixed = p.calls.fixed && kind == funcref
				out = append(out, kind)
			} else if kind := r.byte(); kind == 0 {
				out = append(out, kind)
			} else {
				r.fail(at, "element kind %#x is not known", kind)
			}
		}
		n := r.count()
		out = appendU32(out, uint32(n))
		for i := range n {
			p.calls.put(place+uint64(i), *r, flags&4 != 0)
			if flags&4 != 0 {
				out = p.constant(r, out)
			} else {
				out = appendU32(out, p.moved(r.index("function", p.functions)))
			}
			if !r.ok() {
				return out
			}
		}
	}
	return out
}

// countData learns how many data segments there are, before the code does.
func (p *preparer) countData(r *reader) {
	if s := p.sections[secData]; s != nil && r.ok() {
		peek := *s
		p.dataCount = peek.count()
		r.err = peek.err
	}
	if s := p.sections[secDataCount]; s != nil && r.ok() {
		at := s.at
		if n := s.u32(); s.ok() && int(n) != p.dataCount {
			s.fail(at, "%d data segments told, %d there", n, p.dataCount)
		}
		r.err = s.err
	}
}

// dataSection takes the active segments out. In their place stays an empty
// passive one where code names segments by index; it behaves as an active
// one does once it is laid in.
func (p *preparer) dataSection(r *reader, out []byte) []byte {
	n := r.count()
	out = appendU32(out, uint32(n))
	kept := p.usesData || p.importsMemory
	for range n {
		at := r.at
		flags := r.u32()
		if flags > 2 {
			r.fail(at, "data segment of kind %#x is not known", flags)
		}
		if flags == 2 {
			r.index("memory", p.memories)
		}
		if flags == 1 {
			b := r.bytes(r.count())
			out = appendU32(append(out, 1), uint32(len(b)))
			out = append(out, b...)
			kept = true
			continue
		}
		if p.importsMemory { // it may be in use: there is no laying in beforehand
			out = p.constant(r, append(out, 0))
			b := r.bytes(r.count())
			out = append(appendU32(out, uint32(len(b))), b...)
			continue
		}
		offset := p.offset(r)
		b := r.bytes(r.count())
		if !r.ok() {
			return out
		}
		if uint64(offset)+uint64(len(b)) > uint64(p.module.Pages)*PageSize || p.memories == 0 {
			r.fail(at, "data segment of %d bytes at %#x lies outside memory", len(b), offset)
		}
		p.module.Data = append(p.module.Data, Segment{offset, b})
		out = append(out, 1, 0)
	}
	if !kept {
		return nil
	}
	return out
}

// offset is the value of a constant expression that is a plain number.
func (p *preparer) offset(r *reader) uint32 {
	at := r.at
	if op := r.byte(); op != 0x41 {
		r.fail(at, "offset of a data segment with opcode %#x is not supported", op)
	}
	v := r.s64(5)
	if r.ok() && v != int64(int32(v)) {
		r.fail(at, "offset of a data segment is larger than 32 bits")
	}
	if end := r.byte(); end != 0x0b {
		r.fail(at, "offset of a data segment is not a plain number")
	}
	return uint32(v)
}
