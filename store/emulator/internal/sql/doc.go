// Package sql parses, binds, analyses and evaluates the subset of Azure Cosmos DB's query language
// that the embedded engine supports. It does not depend on storage: the engine asks a Bound which
// values it pins, what it reads and orders by, and passes documents as raw JSON.
//
// Parse returns a Query, which is immutable and may be cached; Bind adds the parameters. Queries and
// Bounds are safe for concurrent use, Evaluators and Aggregations are not. The package does no I/O
// and starts no goroutines.
//
// The grammar. Keywords and function names are case-insensitive, property names and true, false, null and undefined
// are not. A keyword is no name: c["order"], not c.order.
//
//	SELECT [DISTINCT] [TOP n|@p] * | VALUE expr | expr [[AS] alias], ...
//	FROM name [[AS] alias]
//	[WHERE expr]
//	[GROUP BY expr, ... | ORDER BY path [ASC|DESC], ... | ORDER BY score [ASC|DESC] | ORDER BY RANK rank]
//	[OFFSET n|@p LIMIT n|@p]
//
//	expr      literal, @parameter, path, [expr, ...], {"name": expr, ...}, (expr), call
//	          + - * / %  unary - +  ||  = != <> < <= > >=  AND OR NOT  ??  ? :
//	          [NOT] IN (...)  [NOT] BETWEEN a AND b  [NOT] LIKE pattern [ESCAPE 'c']
//	path      c.a.b  c["a"]["b"]  c.list[0]
//	types     IS_ARRAY IS_BOOL (or IS_BOOLEAN) IS_DEFINED IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT
//	          IS_PRIMITIVE IS_STRING
//	strings   CONCAT CONTAINS ENDSWITH INDEX_OF LEFT LENGTH LOWER LTRIM
//	          REGEXMATCH REPLACE REPLICATE REVERSE RIGHT RTRIM STARTSWITH STRINGEQUALS
//	          SUBSTRING TOSTRING TRIM UPPER STRINGTOARRAY STRINGTOBOOLEAN STRINGTONULL
//	          STRINGTONUMBER STRINGTOOBJECT
//	arrays    ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH
//	          ARRAY_SLICE SETINTERSECT SETUNION
//	numbers   ABS CEILING FLOOR POWER ROUND SQRT
//	search    FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY _FULLTEXTWORDCOUNT
//	score     _FULLTEXTSCORE(path, [term, ...], items, words, [items with the term, ...])
//	rank      FULLTEXTSCORE(path, term, ...) or RRF(FULLTEXTSCORE(...), ... [, [weight, ...]])
//	aggregate COUNT COUNTIF SUM MIN MAX AVG
//
// Comments are -- to the end of the line and /* */. FROM only names the alias that paths begin with.
//
// Parse refuses everything else with an *Error that names the construct. It also refuses, without
// parentheses, what the service parses with an unusual precedence: NOT before a comparison and ||
// beside one.
//
// Evaluation follows the service: undefined propagates; across types, = and != are false and true,
// other comparisons are undefined, as they are between arrays or objects; WHERE accepts only true. A
// number that JSON cannot write (1/0) is undefined. Lengths and positions in strings count UTF-16
// units. Full-text functions compare what package fulltext makes of a property and of literals or
// parameters. A query with ORDER BY RANK is for a client to execute: an Evaluator ignores the order.
//
// Work and memory for one document are bounded; exceeding a limit is an error, not undefined.
package sql
