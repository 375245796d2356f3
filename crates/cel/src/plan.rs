//! The plan of an expression: its checked tree with names resolved to slots, functions to code, and constants folded.

use std::sync::Arc;

use regex::Regex;

use crate::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, Literal, operator};
use crate::cel_type::{ObjectType, Type};
use crate::check::TypeMap;
use crate::eval;
use crate::library::{self, Builtin};
use crate::macros::MAP_INSERT;
use crate::value::{List, Text, Value};

/// A step of a plan.
#[derive(Debug)]
pub(crate) enum Step {
    Constant(Value<'static>),
    Attribute(Box<Attribute>),
    /// `has(attribute.field)`.
    Has(Box<Attribute>, Arc<str>),
    And(Vec<Step>),
    Or(Vec<Step>),
    Conditional(Box<[Step; 3]>),
    /// True unless the operand is false; also if it is an error.
    NotStrictlyFalse(Box<Step>),
    Call(Box<CallStep>),
    /// `item in list` of a list of constant scalars.
    Member(Box<Step>, List<'static>),
    /// `target.or(other)` and `target.orValue(other)`: the second operand is evaluated only if it is needed.
    OptionalOr(Box<[Step; 2]>, bool),
    List(Vec<(Step, bool)>),
    Map(Vec<(Step, Step, bool)>),
    /// An object with these fields.
    Struct(Arc<ObjectType>, Vec<(Arc<str>, Step, bool)>),
    Fold(Box<Fold>),
    /// Binds a local variable for the result.
    Bind(Box<[Step; 2]>),
}

/// A variable or a computed value, and the fields and indexes that are selected from it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Root {
    /// A variable of the environment, by its position.
    Variable(usize),
    /// A variable of a comprehension, by its slot.
    Local(usize),
    Computed(Step),
}

#[derive(Debug)]
pub(crate) enum Qualifier {
    Field(Arc<str>),
    OptionalField(Arc<str>),
    Index(Step),
    OptionalIndex(Step),
}

#[derive(Debug)]
pub(crate) struct CallStep {
    pub(crate) function: &'static str,
    /// The overload, if the types of the arguments decide it.
    pub(crate) overload: Option<&'static str>,
    pub(crate) code: Builtin,
    /// The regular expression of a constant argument.
    pub(crate) regex: Option<Regex>,
    pub(crate) args: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Step,
    /// Whether the loop has two variables.
    pub(crate) has_two: bool,
    pub(crate) init: Step,
    pub(crate) condition: Step,
    pub(crate) step: Step,
    /// How the step adds to a list or a map, if that is all it does.
    pub(crate) collect: Option<Collect>,
    pub(crate) result: Step,
}

/// A step that adds an entry to the accumulator, if the filter is true.
#[derive(Debug)]
pub(crate) struct Collect {
    pub(crate) filter: Option<Step>,
    pub(crate) entry: CollectEntry,
}

#[derive(Debug)]
pub(crate) enum CollectEntry {
    /// An item of a list.
    Item(Step),
    KeyAndValue(Step, Step),
    /// The entries of a map.
    Entries(Step),
}

/// Plans a checked expression. `variables` are the names of the environment in the order of their values.
pub(crate) fn plan(expr: &Expr, checked: &TypeMap, variables: &[String]) -> Result<Step, String> {
    let mut planner = Planner {
        checked,
        variables,
        locals: Vec::new(),
    };
    planner.step(expr)
}

struct Planner<'a> {
    checked: &'a TypeMap,
    variables: &'a [String],
    /// Names of local variables by slot: those of the innermost comprehension last.
    locals: Vec<Arc<str>>,
}

impl Planner<'_> {
    fn step(&mut self, expr: &Expr) -> Result<Step, String> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Step::Constant(constant(literal))),
            ExprKind::Ident(name) => Ok(self.ident(expr.id, name)),
            ExprKind::Select(select) => {
                let attribute = self.attribute(&select.operand)?;
                let field = select.field.clone();
                Ok(match select.test_only {
                    true => Step::Has(Box::new(attribute), field),
                    false => qualified(attribute, Qualifier::Field(field)),
                })
            }
            ExprKind::Call(call) => self.call(expr.id, call),
            ExprKind::List(items) => {
                let steps: Result<Vec<_>, String> = items
                    .iter()
                    .map(|item| Ok((self.step(&item.value)?, item.optional)))
                    .collect();
                Ok(fold_list(steps?))
            }
            ExprKind::Map(entries) => {
                let steps: Result<Vec<_>, String> = entries
                    .iter()
                    .map(|entry| Ok((self.step(&entry.key)?, self.step(&entry.value)?, entry.optional)))
                    .collect();
                Ok(fold_map(steps?))
            }
            ExprKind::Struct(literal) => {
                let fields: Result<Vec<_>, String> = literal
                    .fields
                    .iter()
                    .map(|field| Ok((field.name.clone(), self.step(&field.value)?, field.optional)))
                    .collect();
                match &self.checked.types[expr.id] {
                    Type::Object(object) => Ok(Step::Struct(object.clone(), fields?)),
                    other => Err(format!("type '{other}' cannot be constructed")),
                }
            }
            ExprKind::Comprehension(fold) => self.comprehension(fold),
        }
    }

    fn ident(&mut self, id: usize, name: &str) -> Step {
        if let Some(root) = self.root(name) {
            let attribute = Attribute {
                root,
                qualifiers: Vec::new(),
            };
            return Step::Attribute(Box::new(attribute));
        }
        Step::Constant(Value::Type(match &self.checked.types[id] {
            Type::Type(named) => (**named).clone(),
            _ => Type::Dyn,
        }))
    }

    fn root(&self, name: &str) -> Option<Root> {
        let local = self.locals.iter().rposition(|own| **own == *name);
        let name = name.strip_prefix('.').unwrap_or(name);
        let variable = || self.variables.iter().position(|own| own == name);
        local.map(Root::Local).or_else(|| variable().map(Root::Variable))
    }

    /// An expression as an attribute, to which qualifiers can be added.
    fn attribute(&mut self, expr: &Expr) -> Result<Attribute, String> {
        Ok(match self.step(expr)? {
            Step::Attribute(attribute) => *attribute,
            computed => Attribute {
                root: Root::Computed(computed),
                qualifiers: Vec::new(),
            },
        })
    }

    fn call(&mut self, id: usize, call: &Call) -> Result<Step, String> {
        let args: Vec<&Expr> = call.target.iter().chain(&call.args).collect();
        match (&*call.function, &args[..]) {
            (operator::AND, _) => Ok(Step::And(self.terms(call, operator::AND)?)),
            (operator::OR, _) => Ok(Step::Or(self.terms(call, operator::OR)?)),
            (operator::CONDITIONAL, [condition, yes, no]) => {
                let steps = [self.step(condition)?, self.step(yes)?, self.step(no)?];
                Ok(Step::Conditional(Box::new(steps)))
            }
            (operator::NOT_STRICTLY_FALSE, [operand]) => {
                Ok(Step::NotStrictlyFalse(Box::new(self.step(operand)?)))
            }
            (operator::INDEX, [operand, index]) => {
                let attribute = self.attribute(operand)?;
                let index = self.step(index)?;
                Ok(qualified(attribute, Qualifier::Index(index)))
            }
            (operator::OPTIONAL_INDEX, [operand, index]) => {
                let attribute = self.attribute(operand)?;
                let index = self.step(index)?;
                Ok(qualified(attribute, Qualifier::OptionalIndex(index)))
            }
            (operator::OPTIONAL_SELECT, [operand, field]) => {
                let attribute = self.attribute(operand)?;
                let field = match &field.kind {
                    ExprKind::Literal(Literal::String(name)) => name.clone(),
                    _ => return Err("unsupported optional field selection".to_owned()),
                };
                Ok(qualified(attribute, Qualifier::OptionalField(field)))
            }
            ("or" | "orValue", [target, other]) if call.target.is_some() => {
                let steps = [self.step(target)?, self.step(other)?];
                Ok(Step::OptionalOr(Box::new(steps), &*call.function == "orValue"))
            }
            _ => self.function(id, call, &args),
        }
    }

    /// The operands of nested logical operators of one kind.
    fn terms(&mut self, call: &Call, function: &str) -> Result<Vec<Step>, String> {
        let mut terms = Vec::new();
        for argument in &call.args {
            match &argument.kind {
                ExprKind::Call(inner) if &*inner.function == function && inner.target.is_none() => {
                    terms.extend(self.terms(inner, function)?);
                }
                _ => terms.push(self.step(argument)?),
            }
        }
        Ok(terms)
    }

    fn function(&mut self, id: usize, call: &Call, args: &[&Expr]) -> Result<Step, String> {
        let (function, code) =
            library::find(&call.function).ok_or_else(|| format!("unbound function '{}'", call.function))?;
        let args: Result<Vec<Step>, String> = args.iter().map(|argument| self.step(argument)).collect();
        let args = args?;
        let overload = match self.checked.overloads[id][..] {
            [only] => Some(only),
            _ => None,
        };
        let regex = library::regex::of_constant(function, &args)?;
        let step = CallStep {
            function,
            overload,
            code,
            regex,
            args,
        };
        if is_conversion(function)
            && let [Step::Constant(_)] = &step.args[..]
        {
            return eval::constant(&step).map(Step::Constant);
        }
        Ok(membership(step))
    }

    fn comprehension(&mut self, fold: &Comprehension) -> Result<Step, String> {
        let is_bind = matches!(&fold.range.kind, ExprKind::List(items) if items.is_empty())
            && matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)));
        let init = self.step(&fold.init)?;
        let range = self.step(&fold.range)?;
        let locals = self.locals.len();
        self.locals.push(fold.accumulator.clone());
        if is_bind {
            let result = self.step(&fold.result)?;
            self.locals.truncate(locals);
            return Ok(Step::Bind(Box::new([init, result])));
        }
        self.locals.push(fold.variable.clone());
        self.locals.extend(fold.variable2.clone());
        let condition = self.step(&fold.condition)?;
        let step = self.step(&fold.step)?;
        let collect = self.collect(&fold.step)?;
        self.locals.truncate(locals + 1);
        let result = self.step(&fold.result)?;
        self.locals.truncate(locals);
        Ok(Step::Fold(Box::new(Fold {
            range,
            has_two: fold.variable2.is_some(),
            init,
            condition,
            step,
            collect,
            result,
        })))
    }

    /// The form of the steps that the macros `map`, `filter` and `transformMap` make.
    fn collect(&mut self, step: &Expr) -> Result<Option<Collect>, String> {
        let Some((function, args)) = as_call(step) else {
            return Ok(None);
        };
        match (function, args) {
            (operator::CONDITIONAL, [filter, added, same]) if is_accumulator(same) => {
                let Some(collect) = self.collect(added)?.filter(|inner| inner.filter.is_none()) else {
                    return Ok(None);
                };
                let filter = Some(self.step(filter)?);
                Ok(Some(Collect { filter, ..collect }))
            }
            (operator::ADD, [accumulator, list]) if is_accumulator(accumulator) => match &list.kind {
                ExprKind::List(items) if items.len() == 1 && !items[0].optional => {
                    let entry = CollectEntry::Item(self.step(&items[0].value)?);
                    Ok(Some(Collect { filter: None, entry }))
                }
                _ => Ok(None),
            },
            (MAP_INSERT, [accumulator, key, value]) if is_accumulator(accumulator) => {
                let entry = CollectEntry::KeyAndValue(self.step(key)?, self.step(value)?);
                Ok(Some(Collect { filter: None, entry }))
            }
            (MAP_INSERT, [accumulator, entries]) if is_accumulator(accumulator) => {
                let entry = CollectEntry::Entries(self.step(entries)?);
                Ok(Some(Collect { filter: None, entry }))
            }
            _ => Ok(None),
        }
    }
}

fn as_call(expr: &Expr) -> Option<(&str, &[Expr])> {
    match &expr.kind {
        ExprKind::Call(call) => Some((&call.function, &call.args)),
        _ => None,
    }
}

fn is_accumulator(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Ident(name) if &**name == ACCUMULATOR)
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

fn qualified(mut attribute: Attribute, qualifier: Qualifier) -> Step {
    attribute.qualifiers.push(qualifier);
    Step::Attribute(Box::new(attribute))
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "dyn" | "duration" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

/// A call of `in` with a list of constant scalars is a test of membership.
fn membership(mut call: CallStep) -> Step {
    let list = match (&call.args[..], call.function) {
        ([_, Step::Constant(Value::List(list))], operator::IN) => list.clone(),
        _ => return Step::Call(Box::new(call)),
    };
    if list.len() == 0 {
        return Step::Constant(Value::Bool(false));
    }
    let is_simple = list.iter().all(|item| is_scalar(&item));
    match is_simple {
        true => Step::Member(Box::new(call.args.swap_remove(0)), list),
        false => Step::Call(Box::new(call)),
    }
}

fn is_scalar(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
    )
}

/// A list of constants is a constant.
fn fold_list(items: Vec<(Step, bool)>) -> Step {
    let values: Option<Vec<Value<'static>>> = items
        .iter()
        .map(|(item, optional)| match item {
            Step::Constant(value) if !optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    match values {
        Some(values) => Step::Constant(Value::list(values)),
        None => Step::List(items),
    }
}

fn fold_map(entries: Vec<(Step, Step, bool)>) -> Step {
    let constants: Option<Vec<(Value<'static>, Value<'static>)>> = entries
        .iter()
        .map(|entry| match entry {
            (Step::Constant(key), Step::Constant(value), false) => Some((key.clone(), value.clone())),
            _ => None,
        })
        .collect();
    match constants {
        Some(entries) => Step::Constant(Value::map(entries)),
        None => Step::Map(entries),
    }
}
