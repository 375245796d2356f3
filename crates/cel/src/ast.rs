//! The syntax tree of an expression. Macros are expanded: `all`, `map` and the others are [`Comprehension`]s.

use std::sync::Arc;

/// One node of an expression. Its id is unique in the expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) id: usize,
    /// The position in the source that errors about this node show, in characters.
    pub(crate) offset: usize,
    /// How many nodes the longest path down from here has.
    pub(crate) depth: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<ListItem>),
    Map(Vec<MapEntry>),
    Struct(Box<Struct>),
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// `operand.field`, or the test of it in `has(operand.field)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    pub(crate) test_only: bool,
}

/// `function(args)` or `target.function(args)`. Operators are functions such as `_+_`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

/// An item of a list literal. `[?a]` has an optional one, which is left out if it has no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListItem {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// `Type{field: value}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Struct {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: Vec<StructField>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructField {
    pub(crate) name: Arc<str>,
    /// The position of the name.
    pub(crate) offset: usize,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop: for each element of `range`, as long as `condition` is true, `accumulator` becomes the value of `step`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    /// The element of a list, the key of a map; with two variables, the index of a list.
    pub(crate) variable: Arc<str>,
    /// The second variable: the element of a list, the value of a map.
    pub(crate) variable2: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The accumulator of the standard macros. No source text can name it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// Names of the operators as functions, as errors print them.
pub(crate) mod operator {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPTIONAL_INDEX: &str = "_[?_]";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}

impl Expr {
    /// The dotted name that a chain of selections spells: `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.test_only => {
                let operand = select.operand.qualified_name()?;
                Some(format!("{operand}.{}", select.field))
            }
            _ => None,
        }
    }
}

impl Expr {
    /// Calls a function for this node and all below it.
    pub(crate) fn for_each_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        visit(self);
        match &mut self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => select.operand.for_each_mut(visit),
            ExprKind::Call(call) => {
                let all = call.target.iter_mut().chain(&mut call.args);
                all.for_each(|child| child.for_each_mut(visit));
            }
            ExprKind::List(items) => items.iter_mut().for_each(|item| item.value.for_each_mut(visit)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    entry.key.for_each_mut(visit);
                    entry.value.for_each_mut(visit);
                }
            }
            ExprKind::Struct(literal) => {
                let fields = literal.fields.iter_mut();
                fields.for_each(|field| field.value.for_each_mut(visit));
            }
            ExprKind::Comprehension(fold) => {
                let Comprehension {
                    range,
                    init,
                    condition,
                    step,
                    result,
                    ..
                } = &mut **fold;
                for child in [range, init, condition, step, result] {
                    child.for_each_mut(visit);
                }
            }
        }
    }
}

impl Expr {
    /// The nodes directly below this one.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select(select) => vec![&select.operand],
            ExprKind::Call(call) => call.target.iter().chain(&call.args).collect(),
            ExprKind::List(items) => items.iter().map(|item| &item.value).collect(),
            ExprKind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .collect(),
            ExprKind::Struct(literal) => literal.fields.iter().map(|field| &field.value).collect(),
            ExprKind::Comprehension(fold) => {
                vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
            }
        }
    }

    /// Whether an identifier of this name occurs.
    pub(crate) fn names(&self, name: &str) -> bool {
        let is_own = matches!(&self.kind, ExprKind::Ident(own) if own.trim_start_matches('.') == name);
        is_own || self.children().into_iter().any(|child| child.names(name))
    }
}

impl Expr {
    /// The fields that are selected directly from a name, with that name.
    pub(crate) fn selections(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let mut found = Vec::new();
        self.add_selections(&mut found);
        found
    }

    fn add_selections(&self, found: &mut Vec<(Arc<str>, Arc<str>)>) {
        let selection = match &self.kind {
            ExprKind::Select(select) => Some((&select.operand.kind, &select.field)),
            ExprKind::Call(call) if &*call.function == operator::OPTIONAL_SELECT => match &call.args[..] {
                [operand, field] => match &field.kind {
                    ExprKind::Literal(Literal::String(name)) => Some((&operand.kind, name)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        if let Some((ExprKind::Ident(name), field)) = selection {
            found.push((name.clone(), field.clone()));
        }
        for child in self.children() {
            child.add_selections(found);
        }
    }
}
