//! Macros: calls that the parser replaces by comprehensions and presence tests.

use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, ListItem, Literal, Select, operator};
use crate::parser::Parser;

/// Inserts into the map that `transformMap` builds.
pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
/// Sorts a list by a list of keys: the function behind `sortBy`.
pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
const SORT_INPUT: &str = "@__sortBy_input__";
const UNUSED: &str = "#unused";

/// A call of a function without a target: `has(a.b)` is a macro.
pub(crate) fn expand_global(
    parser: &mut Parser,
    offset: usize,
    name: &str,
    mut args: Vec<Expr>,
) -> Option<Expr> {
    if name != "has" || args.len() != 1 {
        return Some(parser.call(offset, name, args));
    }
    let argument = args.remove(0);
    match argument.kind {
        ExprKind::Select(select) if !select.test_only => {
            let select = Select {
                test_only: true,
                ..*select
            };
            Some(parser.node(offset, ExprKind::Select(Box::new(select))))
        }
        _ => parser.fail(argument.offset, "invalid argument to has() macro"),
    }
}

/// A call with a target.
pub(crate) fn expand_member(
    parser: &mut Parser,
    offset: usize,
    target: Expr,
    name: &Arc<str>,
    args: Vec<Expr>,
) -> Option<Expr> {
    let mut builder = Builder { parser, offset };
    match (&**name, args.len()) {
        ("all" | "exists" | "exists_one" | "filter", 2)
        | ("all" | "exists" | "exists_one" | "existsOne", 3)
        | ("map", 2 | 3)
        | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            builder.comprehension(name, target, args)
        }
        ("optMap" | "optFlatMap", 2) => builder.optional_map(name, target, args),
        ("sortBy", 2) => builder.sort_by(target, args),
        _ => {
            let call = Call {
                function: name.clone(),
                target: Some(target),
                args,
            };
            Some(builder.parser.node(offset, ExprKind::Call(Box::new(call))))
        }
    }
}

/// The parts of a loop that differ between macros.
struct Loop {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// Builds the nodes of an expansion, all at the position of the call.
struct Builder<'a> {
    parser: &'a mut Parser,
    offset: usize,
}

impl Builder<'_> {
    fn comprehension(&mut self, name: &str, target: Expr, mut args: Vec<Expr>) -> Option<Expr> {
        let takes_two = name.starts_with("transform") || (args.len() == 3 && name != "map");
        let must_be_simple = !matches!(name, "map" | "filter");
        let variable = self.variable(&args.remove(0), must_be_simple)?;
        let mut variable2 = None;
        if takes_two {
            let second = args.remove(0);
            let second_name = self.variable(&second, true)?;
            if second_name == variable {
                let message = format!("duplicate variable name: {variable}");
                return self.parser.fail(second.offset, message);
            }
            variable2 = Some(second_name);
        }
        let body = self.body(name, &variable, args)?;
        Some(self.fold(target, (variable, variable2), ACCUMULATOR, body))
    }

    fn variable(&mut self, argument: &Expr, must_be_simple: bool) -> Option<Arc<str>> {
        match &argument.kind {
            ExprKind::Ident(name) if &**name == "__result__" => self.parser.fail(
                argument.offset,
                "iteration variable overwrites accumulator variable",
            ),
            ExprKind::Ident(name) => Some(name.clone()),
            _ if must_be_simple => self
                .parser
                .fail(argument.offset, "argument must be a simple name"),
            _ => self.parser.fail(argument.offset, "argument is not an identifier"),
        }
    }

    fn body(&mut self, name: &str, variable: &Arc<str>, mut args: Vec<Expr>) -> Option<Loop> {
        let last = args.pop()?;
        let filter = args.pop();
        match name {
            "all" => {
                let accumulator = self.accumulator();
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![accumulator]);
                Some(self.quantifier(Literal::Bool(true), condition, operator::AND, last))
            }
            "exists" => {
                let accumulator = self.accumulator();
                let not = self.call(operator::NOT, vec![accumulator]);
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![not]);
                Some(self.quantifier(Literal::Bool(false), condition, operator::OR, last))
            }
            "exists_one" | "existsOne" => Some(self.count_one(last)),
            "filter" => {
                let element = self.ident(variable);
                Some(self.append(Some(last), element))
            }
            "map" | "transformList" => Some(self.append(filter, last)),
            "transformMap" => {
                let (accumulator, key) = (self.accumulator(), self.ident(variable));
                let step = self.call(MAP_INSERT, vec![accumulator, key, last]);
                Some(self.insert(filter, step))
            }
            _ => {
                let accumulator = self.accumulator();
                let step = self.call(MAP_INSERT, vec![accumulator, last]);
                Some(self.insert(filter, step))
            }
        }
    }

    fn quantifier(&mut self, init: Literal, condition: Expr, function: &str, predicate: Expr) -> Loop {
        let accumulator = self.accumulator();
        Loop {
            init: self.literal(init),
            condition,
            step: self.call(function, vec![accumulator, predicate]),
            result: self.accumulator(),
        }
    }

    fn count_one(&mut self, predicate: Expr) -> Loop {
        let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        let more = self.call(operator::ADD, vec![accumulator, one]);
        let same = self.accumulator();
        let (count, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        Loop {
            init: self.literal(Literal::Int(0)),
            condition: self.literal(Literal::Bool(true)),
            step: self.call(operator::CONDITIONAL, vec![predicate, more, same]),
            result: self.call(operator::EQUALS, vec![count, one]),
        }
    }

    /// A loop that appends an element to a list, if the filter is true.
    fn append(&mut self, filter: Option<Expr>, element: Expr) -> Loop {
        let accumulator = self.accumulator();
        let item = ListItem {
            value: element,
            optional: false,
        };
        let list = self.node(ExprKind::List(vec![item]));
        let step = self.call(operator::ADD, vec![accumulator, list]);
        Loop {
            init: self.node(ExprKind::List(Vec::new())),
            condition: self.literal(Literal::Bool(true)),
            step: self.filtered(filter, step),
            result: self.accumulator(),
        }
    }

    fn insert(&mut self, filter: Option<Expr>, step: Expr) -> Loop {
        Loop {
            init: self.node(ExprKind::Map(Vec::new())),
            condition: self.literal(Literal::Bool(true)),
            step: self.filtered(filter, step),
            result: self.accumulator(),
        }
    }

    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            None => step,
            Some(filter) => {
                let same = self.accumulator();
                self.call(operator::CONDITIONAL, vec![filter, step, same])
            }
        }
    }

    /// `target.optMap(v, f)`: `target.hasValue() ? optional.of(f) : optional.none()` with `v` bound to the value.
    fn optional_map(&mut self, name: &str, target: Expr, mut args: Vec<Expr>) -> Option<Expr> {
        let result = args.pop()?;
        let variable = args.pop()?;
        let ExprKind::Ident(variable) = &variable.kind else {
            let message = format!("{name}() variable name must be a simple identifier");
            return self.parser.fail(variable.offset, message);
        };
        let variable = variable.clone();
        let copy = self.copy(&target);
        let has_value = self.member("hasValue", target, Vec::new());
        let value = self.member("value", copy, Vec::new());
        let bound = self.bind(&variable, value, result);
        let yes = match name {
            "optMap" => self.call("optional.of", vec![bound]),
            _ => bound,
        };
        let no = self.call("optional.none", Vec::new());
        Some(self.call(operator::CONDITIONAL, vec![has_value, yes, no]))
    }

    /// `target.sortBy(e, key)`: the target is bound, and sorted by the list of its keys.
    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Option<Expr> {
        if matches!(
            target.kind,
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct(_)
        ) {
            return self.parser.fail(
                target.offset,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let input: Arc<str> = SORT_INPUT.into();
        let range = self.ident(&input);
        let keys = self.comprehension("map", range, args)?;
        let list = self.ident(&input);
        let sorted = self.member(SORT_BY_KEYS, list, vec![keys]);
        Some(self.bind(&input, target, sorted))
    }

    /// A comprehension over nothing: its accumulator is a variable of the result.
    fn bind(&mut self, variable: &str, value: Expr, result: Expr) -> Expr {
        let range = self.node(ExprKind::List(Vec::new()));
        let accumulator: Arc<str> = variable.into();
        let body = Loop {
            init: value,
            condition: self.literal(Literal::Bool(false)),
            step: self.ident(&accumulator),
            result,
        };
        self.fold(range, (UNUSED.into(), None), variable, body)
    }

    fn fold(
        &mut self,
        range: Expr,
        (variable, variable2): (Arc<str>, Option<Arc<str>>),
        accumulator: &str,
        body: Loop,
    ) -> Expr {
        let comprehension = Comprehension {
            range,
            variable,
            variable2,
            accumulator: accumulator.into(),
            init: body.init,
            condition: body.condition,
            step: body.step,
            result: body.result,
        };
        self.node(ExprKind::Comprehension(Box::new(comprehension)))
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let call = Call {
            function: function.into(),
            target: Some(target),
            args,
        };
        self.node(ExprKind::Call(Box::new(call)))
    }

    /// A copy with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        copy.for_each_mut(&mut |node| {
            let fresh = self.parser.node(node.offset, ExprKind::Literal(Literal::Null));
            node.id = fresh.id;
        });
        copy
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(&ACCUMULATOR.into())
    }

    fn ident(&mut self, name: &Arc<str>) -> Expr {
        self.parser.ident(self.offset, name)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.parser.literal(self.offset, literal)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.parser.call(self.offset, function, args)
    }

    fn node(&mut self, kind: ExprKind) -> Expr {
        self.parser.node(self.offset, kind)
    }
}
