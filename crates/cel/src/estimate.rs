//! Static cost: the range of what an evaluation may cost, from the types and the declared sizes.
//!
//! A rule whose greatest cost is above the limit is rejected when it is written. The estimate follows cel-go's
//! `checker/cost.go` and Kubernetes' `cel/library/cost.go`, since the limit is a part of the API.

mod call;
mod range;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use range::Range;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, ExprKind, ListItem, Literal, MapEntry, Select};
use crate::cel_type::Type;
use crate::check::TypeMap;
use crate::library::cost;
use crate::value_schema::ValueSchema;

/// Estimates the cost of a checked expression. Variables have their declared schemas.
pub(crate) fn estimate(expr: &Expr, checked: &TypeMap, variables: &BTreeMap<String, ValueSchema>) -> Range {
    let mut estimator = Estimator {
        checked,
        variables,
        paths: vec![Vec::new(); checked.types.len()],
        sizes: vec![None; checked.types.len()],
        entry_sizes: vec![None; checked.types.len()],
        locals: Vec::new(),
    };
    estimator.cost(expr)
}

/// The sizes of keys and of values of a list or map.
#[derive(Debug, Clone, Copy, PartialEq)]
struct EntrySize {
    is_list: bool,
    key: Range,
    value: Range,
}

/// What is known about a local variable.
#[derive(Debug, Clone)]
struct Local {
    name: Arc<str>,
    path: Vec<Arc<str>>,
    size: Option<Range>,
    entry_size: Option<EntrySize>,
}

struct Estimator<'a> {
    checked: &'a TypeMap,
    variables: &'a BTreeMap<String, ValueSchema>,
    /// By node: the path from a variable through declared fields.
    paths: Vec<Vec<Arc<str>>>,
    sizes: Vec<Option<Range>>,
    entry_sizes: Vec<Option<EntrySize>>,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn own_type(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id]
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::ZERO,
            ExprKind::Ident(name) => {
                self.paths[expr.id] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                Range::fixed(cost::SELECT)
            }
            ExprKind::Select(select) => self.select(expr, select),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(items) => self.list(expr, items),
            ExprKind::Map(entries) => self.map(expr, entries),
            ExprKind::Struct(literal) => {
                let fields = literal.fields.iter();
                fields.fold(Range::fixed(cost::STRUCT), |total, field| {
                    total.plus(self.cost(&field.value))
                })
            }
            ExprKind::Comprehension(fold) => self.comprehension(expr, fold),
        }
    }

    fn select(&mut self, expr: &Expr, select: &Select) -> Range {
        let operand = self.cost(&select.operand);
        if select.test_only {
            return operand;
        }
        let mut path = self.path(&select.operand);
        path.push(select.field.clone());
        self.paths[expr.id] = path;
        match self.own_type(&select.operand) {
            Type::Map(_) | Type::Object(_) | Type::Opaque(_) | Type::Variable(_) => {
                operand.plus(Range::fixed(cost::SELECT))
            }
            _ => operand,
        }
    }

    fn list(&mut self, expr: &Expr, items: &[ListItem]) -> Range {
        let mut total = Range::fixed(cost::LIST);
        let mut item_size: Option<Range> = None;
        for item in items {
            total = total.plus(self.cost(&item.value));
            let size = self.size_or_unknown(&item.value);
            item_size = Some(item_size.map_or(size, |known| known.union(size)));
        }
        self.entry_sizes[expr.id] = Some(EntrySize {
            is_list: true,
            key: Range::fixed(1),
            value: item_size.unwrap_or(Range::ZERO),
        });
        total
    }

    fn map(&mut self, expr: &Expr, entries: &[MapEntry]) -> Range {
        let mut total = Range::fixed(cost::MAP);
        let (mut keys, mut values): (Option<Range>, Option<Range>) = (None, None);
        for entry in entries {
            total = total.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
            let (key, value) = (
                self.size_or_unknown(&entry.key),
                self.size_or_unknown(&entry.value),
            );
            keys = Some(keys.map_or(key, |known| known.union(key)));
            values = Some(values.map_or(value, |known| known.union(value)));
        }
        self.entry_sizes[expr.id] = Some(EntrySize {
            is_list: false,
            key: keys.unwrap_or(Range::ZERO),
            value: values.unwrap_or(Range::ZERO),
        });
        total
    }

    fn comprehension(&mut self, expr: &Expr, fold: &Comprehension) -> Range {
        let is_bind = matches!(&fold.range.kind, ExprKind::List(items) if items.is_empty())
            && matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)));
        let mut total = self.cost(&fold.range).plus(self.cost(&fold.init));
        let locals = self.locals.len();
        let accumulator = Local {
            name: fold.accumulator.clone(),
            path: self.path(&fold.init),
            size: self.size(&fold.init),
            entry_size: self.entry_size(&fold.init),
        };
        self.locals.push(accumulator);
        if is_bind {
            total = total.plus(self.cost(&fold.result));
            self.locals.truncate(locals);
            self.sizes[expr.id] = self.size(&fold.result);
            self.entry_sizes[expr.id] = self.entry_size(&fold.result);
            return total;
        }
        self.push_variables(fold);
        let turn = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(locals + 1);
        total = total.plus(self.cost(&fold.result));
        self.locals.truncate(locals);
        let turns = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => self.sizes[expr.id] = self.size(&fold.init),
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes[expr.id] = Some(turns);
                if let Some(entry_size) = self.entry_size(&fold.step) {
                    self.entry_sizes[expr.id] = Some(entry_size);
                }
            }
            _ => {}
        }
        total.plus(turns.times(turn))
    }

    fn push_variables(&mut self, fold: &Comprehension) {
        let entry_size = self.entry_size(&fold.range);
        let is_list = match entry_size {
            Some(known) => known.is_list,
            None => matches!(self.own_type(&fold.range), Type::List(_)),
        };
        let path = self.path(&fold.range);
        let variable = |name: &Arc<str>, step: &str, size: Option<Range>| Local {
            name: name.clone(),
            path: path.iter().cloned().chain([step.into()]).collect(),
            size,
            entry_size: None,
        };
        let key = entry_size.map(|known| known.key);
        let value = entry_size.map(|known| known.value);
        let value_step = if is_list { "@items" } else { "@values" };
        match &fold.variable2 {
            None if is_list => self.locals.push(variable(&fold.variable, "@items", value)),
            None => self.locals.push(variable(&fold.variable, "@keys", key)),
            Some(second) => {
                let key_step = if is_list { "@indices" } else { "@keys" };
                self.locals.push(variable(&fold.variable, key_step, key));
                self.locals.push(variable(second, value_step, value));
            }
        }
    }

    fn path(&self, expr: &Expr) -> Vec<Arc<str>> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id].clone()
    }

    fn size_or_unknown(&self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    /// The size of a value, if anything is known about it.
    fn size(&self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes[expr.id].or_else(|| literal_size(expr)) {
            return Some(size);
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            return Some(size);
        }
        if self.own_type(expr).is_scalar() {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size that the schema at a path declares.
    fn declared_size(&self, path: &[Arc<str>]) -> Option<Range> {
        let (variable, steps) = path.split_first()?;
        if **variable == *ACCUMULATOR {
            return None;
        }
        // Kubernetes takes any other name, such as that of a type, for the value of the rule.
        let mut declared = self
            .variables
            .get(&**variable)
            .or_else(|| self.variables.get("self"))?;
        for step in steps {
            declared = declared.child(step)?;
        }
        declared.max_size.map(|max| Range { min: 0, max })
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(known) = self.entry_sizes[expr.id] {
            return Some(known);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entry_size),
            _ => None,
        }
    }
}

fn literal_size(expr: &Expr) -> Option<Range> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List(items) => items.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Range::fixed(size as u64))
}
