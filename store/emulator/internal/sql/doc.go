// Package sql parses, binds, analyses and evaluates the subset of Azure Cosmos
// DB's query language that the embedded engine executes within one partition.
// It knows nothing of storage: the engine asks a Bound query what it pins, scans
// and orders by, and hands documents over as raw JSON.
//
// Parse makes a Query of a text; a Query is immutable and may be cached. Bind
// puts the parameters in. Queries and Bounds may be used by several goroutines,
// an Aggregation by one. Nothing here starts goroutines or does I/O.
//
// The grammar. Keywords and function names are case-insensitive, property names
// are not.
//
//	SELECT [DISTINCT] [TOP n|@p] * | VALUE expr | expr [[AS] alias], ...
//	FROM name [[AS] alias]
//	[WHERE expr]
//	[GROUP BY expr, ... | ORDER BY path [ASC|DESC], ...]
//	[OFFSET n|@p LIMIT n|@p]
//
//	expr      literal, @parameter, path, [expr, ...], {"name": expr, ...}, (expr), call
//	          + - * / %  unary - +  ||  = != <> < <= > >=  AND OR NOT  ??  ? :
//	          [NOT] IN (...)  [NOT] BETWEEN a AND b  [NOT] LIKE pattern [ESCAPE 'c']
//	path      c.a.b  c["a"]["b"]  c.list[0]
//	types     IS_ARRAY IS_BOOL (or IS_BOOLEAN) IS_DEFINED IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT
//	          IS_PRIMITIVE IS_STRING
//	strings   CONCAT CONTAINS ENDSWITH FULLTEXTCONTAINS INDEX_OF LEFT LENGTH LOWER LTRIM
//	          REGEXMATCH REPLACE REPLICATE REVERSE RIGHT RTRIM STARTSWITH STRINGEQUALS
//	          SUBSTRING TOSTRING TRIM UPPER STRINGTOARRAY STRINGTOBOOLEAN STRINGTONULL
//	          STRINGTONUMBER STRINGTOOBJECT
//	arrays    ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH
//	          ARRAY_SLICE SETINTERSECT SETUNION
//	numbers   ABS CEILING FLOOR POWER ROUND SQRT
//	aggregate COUNT SUM MIN MAX AVG
//
// Comments are -- to the end of the line and /* */. FROM names nothing but the
// alias that paths begin with.
//
// Everything else is refused by Parse with an *Error that names the construct.
// So is what the service's grammar reads differently from what its author most
// likely meant: NOT before an unparenthesised comparison, || beside one.
//
// Evaluation follows the service: undefined propagates; = and != across types
// are false and true, the other comparisons across types, and between arrays or
// objects, are undefined; WHERE keeps only true. A number that JSON cannot
// write (1/0) is undefined. Lengths and positions in strings count UTF-16 units.
// FULLTEXTCONTAINS is a case-insensitive CONTAINS.
//
// What is made and done for one document is bounded; what takes more is an error,
// not undefined.
package sql
