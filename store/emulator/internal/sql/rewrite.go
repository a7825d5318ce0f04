package sql

// rewrite replaces subexpressions of x while it is under construction: f returns the replacement, or
// nil to descend.
func rewrite(x expr, f func(expr) expr) expr {
	if y := f(x); y != nil {
		return y
	}
	each := func(x *expr) { *x = rewrite(*x, f) }
	condition := func(c *cond) {
		if t, ok := (*c).(*truthExpr); ok {
			*c = asCond(rewrite(t.x, f))
		} else {
			*c = asCond(rewrite(*c, f))
		}
	}
	list := func(xs []expr) {
		for i := range xs {
			each(&xs[i])
		}
	}
	conditions := func(cs []cond) {
		for i := range cs {
			condition(&cs[i])
		}
	}
	switch x := x.(type) {
	case *truthExpr:
		each(&x.x)
	case *andExpr:
		conditions(x.list)
	case *orExpr:
		conditions(x.list)
	case *notExpr:
		condition(&x.x)
	case *compareExpr:
		each(&x.l)
		each(&x.r)
	case *betweenExpr:
		each(&x.x)
		each(&x.low)
		each(&x.high)
	case *inExpr:
		each(&x.x)
		list(x.list)
	case *likeExpr:
		each(&x.x)
		each(&x.pattern)
	case *regexExpr:
		each(&x.x)
	case *arithmetic:
		each(&x.l)
		each(&x.r)
	case *signExpr:
		each(&x.x)
	case *concatExpr:
		list(x.list)
	case *coalesceExpr:
		list(x.list)
	case *ternaryExpr:
		condition(&x.if_)
		each(&x.then)
		each(&x.else_)
	case *arrayExpr:
		list(x.list)
	case *objectExpr:
		list(x.list)
	case *callExpr:
		list(x.args)
	case *textCondition:
		each(&x.x)
	case *wordCount:
		each(&x.x)
	case *textScore:
		each(&x.x)
	}
	return x
}
