package prepare

// maxSegments bounds a module's element segments and their elements together, and its data
// segments that stay. Each sandbox holds them outside its memory. Go's compiler makes an
// element of each function: 6 700 in the largest module of this repository.
const maxSegments = 100_000

// elementSection rewrites the functions that tables start with. A segment begins
// with three flags: 1 passive or declarative, 2 with a table index or declarative,
// 4 expressions instead of function indices.
func (p *rewriter) elementSection(r *reader) (out []byte) {
	start := r.at
	p.elements = r.count()
	total := p.elements
	out = appendU32(nil, uint32(p.elements))
	for range p.elements {
		at := r.at
		flags := r.u32()
		if flags > 7 {
			r.fail(at, "element segment of kind %#x is not known", flags)
		}
		out = appendU32(out, flags)
		first := uint64(0)
		if flags&1 == 0 {
			if flags&2 != 0 {
				out = appendU32(out, r.index("table", p.tables))
			}
			peek := *r
			first = uint64(constantOffset(&peek))
			p.calls.fixed = p.calls.fixed && peek.ok() && first <= uint64(len(p.calls.elements))
			out = p.constant(r, out)
		} else {
			p.calls.fixed = false // only code that changes a table has use for it
		}
		if flags&3 != 0 {
			if flags&4 != 0 {
				kind := refType(r)
				p.calls.fixed = p.calls.fixed && kind == funcref
				out = append(out, kind)
			} else {
				out = append(out, r.oneOf("element kind", 0))
			}
		}
		n := r.count()
		if total += n; total > maxSegments {
			r.fail(start, "element segments and their elements are more than %d", maxSegments)
		}
		out = appendU32(out, uint32(n))
		for i := range n {
			p.calls.setElement(first+uint64(i), *r, flags&4 != 0)
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

// countData counts the data segments, which code names, before the code is read.
func (p *rewriter) countData(r *reader) {
	if s := p.sections[secData]; s != nil && r.ok() {
		peek := *s
		p.dataCount = peek.count()
		r.err = peek.err
	}
	if s := p.sections[secDataCount]; s != nil && r.ok() {
		at := s.at
		if n := s.u32(); s.ok() && int(n) != p.dataCount {
			s.fail(at, "%d data segments announced, %d there", n, p.dataCount)
		}
		r.err = s.err
	}
}

// dataSection removes the active segments. In the place of each stays an empty
// passive one where code names segments by index: so behaves an active one that was
// copied into memory.
func (p *rewriter) dataSection(r *reader) (out []byte) {
	start := r.at
	n := r.count()
	out = appendU32(nil, uint32(n))
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
		if p.importsMemory { // it may be in use: nothing can be copied into it beforehand
			out = p.constant(r, append(out, 0))
			b := r.bytes(r.count())
			out = append(appendU32(out, uint32(len(b))), b...)
			continue
		}
		offset := constantOffset(r)
		b := r.bytes(r.count())
		if !r.ok() {
			return out
		}
		if uint64(offset)+uint64(len(b)) > uint64(p.module.Pages)*PageSize || p.memories == 0 {
			r.fail(at, "data segment of %d bytes at %#x lies outside memory", len(b), offset)
		}
		p.module.Data = append(p.module.Data, Segment{offset, b, r.at - len(b)})
		out = append(out, 1, 0)
	}
	if !kept {
		return nil
	}
	if n > maxSegments {
		r.fail(start, "%d data segments that stay, more than the limit of %d", n, maxSegments)
	}
	return out
}

// constantOffset reads a constant expression that must be a plain number.
func constantOffset(r *reader) uint32 {
	at := r.at
	if op := r.byte(); op != opI32Const {
		r.fail(at, "offset of a data segment with opcode %#x is not supported", op)
	}
	v := r.s64(5)
	if r.ok() && v != int64(int32(v)) {
		r.fail(at, "offset of a data segment is larger than 32 bits")
	}
	if end := r.byte(); end != opEnd {
		r.fail(at, "offset of a data segment is not a plain number")
	}
	return uint32(v)
}
