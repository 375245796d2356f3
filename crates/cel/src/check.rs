//! Type checker: infers the type of every node and the overloads of every call, or reports what does not fit.

mod objects;
mod unify;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{
    Call, Comprehension, Expr, ExprKind, ListItem, Literal, MapEntry, Select, Struct, operator,
};
use crate::cel_type::{ObjectType, Type};
use crate::declarations::{Function, Overload, find_function, find_type};
use crate::library::json_patch::ESCAPE_KEY;
use crate::source::Issue;
use unify::Unifier;

/// The variables and object types of an expression.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) variables: BTreeMap<String, Type>,
    /// Object types that struct literals may construct, by name.
    pub(crate) objects: BTreeMap<String, Arc<ObjectType>>,
    /// Whether the types and functions of patches are declared.
    pub(crate) has_patch_types: bool,
}

/// The outcome of a check, by node id.
#[derive(Debug)]
pub(crate) struct TypeMap {
    pub(crate) types: Vec<Type>,
    /// The overloads that fit: several if a type is known only at run time.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    pub(crate) result: Type,
}

/// Checks an expression. Calls of functions with dotted names lose their target: `optional.of(x)`.
pub(crate) fn check(expr: &mut Expr, nodes: usize, environment: &Environment) -> Result<TypeMap, Vec<Issue>> {
    let mut checker = Checker {
        environment,
        scopes: Vec::new(),
        types: vec![Type::Error; nodes],
        overloads: vec![Vec::new(); nodes],
        unifier: Unifier::default(),
        issues: Vec::new(),
    };
    checker.check(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker {
        types,
        overloads,
        unifier,
        ..
    } = checker;
    let types: Vec<Type> = types.iter().map(|one| unifier.resolve(one, true)).collect();
    Ok(TypeMap {
        result: types[expr.id].clone(),
        types,
        overloads,
    })
}

struct Checker<'a> {
    environment: &'a Environment,
    /// Variables of comprehensions, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    unifier: Unifier,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn report(&mut self, offset: usize, message: String) {
        self.issues.push(Issue { offset, message });
    }

    /// The type of a node that was checked.
    fn type_of(&self, expr: &Expr) -> Type {
        self.unifier.resolve(&self.types[expr.id], false)
    }

    fn check(&mut self, expr: &mut Expr) {
        let (id, offset) = (expr.id, expr.offset);
        let found = match &mut expr.kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => self.ident(offset, &name.clone()),
            ExprKind::Select(_) => self.select(expr),
            ExprKind::Call(call) => self.call(id, offset, call),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(literal) => self.structure(offset, literal),
            ExprKind::Comprehension(fold) => self.comprehension(fold),
        };
        self.types[id] = found;
    }

    fn find_variable(&self, name: &str) -> Option<Type> {
        let local = self.scopes.iter().rev().find(|(own, _)| **own == *name);
        local
            .map(|(_, found)| found.clone())
            .or_else(|| self.environment.variables.get(name).cloned())
            .or_else(|| find_type(name).map(|found| Type::Type(found.into())))
            .or_else(|| {
                let object = self.environment.find_object(name)?;
                Some(Type::Type(Type::Object(object).into()))
            })
    }

    fn ident(&mut self, offset: usize, name: &str) -> Type {
        let found = self.find_variable(name.strip_prefix('.').unwrap_or(name));
        found.unwrap_or_else(|| {
            self.report(
                offset,
                format!("undeclared reference to '{name}' (in container '')"),
            );
            Type::Error
        })
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        // A dotted name may be that of a variable or of a type.
        if let Some(name) = expr.qualified_name()
            && let Some(found) = self.find_variable(name.trim_start_matches('.'))
        {
            expr.kind = ExprKind::Ident(name.into());
            return found;
        }
        let offset = expr.offset;
        let ExprKind::Select(select) = &mut expr.kind else {
            return Type::Error;
        };
        let Select {
            operand,
            field,
            test_only,
        } = &mut **select;
        self.check(operand);
        let found = self.field(offset, &self.type_of(operand), field, false);
        if *test_only { Type::Bool } else { found }
    }

    /// The type of a field of a type.
    fn field(&mut self, offset: usize, operand: &Type, field: &str, optional: bool) -> Type {
        let (target, is_optional) = unwrap_optional(operand);
        let found = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(found) => found,
                None => {
                    self.report(offset, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Variable(_) => {
                self.unifier.is_assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Opaque(name) => {
                self.report(offset, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            other => {
                self.report(offset, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_optional || optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn call(&mut self, id: usize, offset: usize, call: &mut Call) -> Type {
        if &*call.function == operator::OPTIONAL_SELECT {
            return self.optional_select(id, offset, call);
        }
        for argument in &mut call.args {
            self.check(argument);
        }
        let qualified = call.target.as_ref().and_then(Expr::qualified_name);
        let qualified = qualified.map(|target| format!("{target}.{}", call.function));
        if let Some(name) = qualified
            && let Some(function) = self.find_function(&name)
        {
            call.target = None;
            call.function = name.into();
            return self.resolve(id, offset, function, call);
        }
        if let Some(target) = &mut call.target {
            self.check(target);
        }
        match self.find_function(&call.function) {
            Some(function) => self.resolve(id, offset, function, call),
            None => {
                let name = &call.function;
                self.report(
                    offset,
                    format!("undeclared reference to '{name}' (in container '')"),
                );
                Type::Error
            }
        }
    }

    fn find_function(&self, name: &str) -> Option<&'static Function> {
        let is_declared = self.environment.has_patch_types || name != ESCAPE_KEY;
        find_function(name).filter(|_| is_declared)
    }

    fn optional_select(&mut self, id: usize, offset: usize, call: &mut Call) -> Type {
        let [operand, field] = &mut call.args[..] else {
            return Type::Error;
        };
        let ExprKind::Literal(Literal::String(name)) = &field.kind else {
            return Type::Error;
        };
        let name = name.clone();
        self.types[field.id] = Type::String;
        self.check(operand);
        self.overloads[id] = vec!["select_optional_field"];
        self.field(offset, &self.type_of(operand), &name, true)
    }

    /// The type of a call: the result of the overload that fits, or `dyn` if several with different results do.
    fn resolve(&mut self, id: usize, offset: usize, function: &'static Function, call: &Call) -> Type {
        let args: Vec<Type> = call
            .target
            .iter()
            .chain(&call.args)
            .map(|argument| self.type_of(argument))
            .collect();
        if matches!(function.name, operator::AND | operator::OR) {
            return self.logical(id, function, call, &args);
        }
        let mut found: Option<Type> = None;
        let is_member = call.target.is_some();
        for overload in function.overloads.iter().filter(|one| one.is_member == is_member) {
            let Some(result) = self.matching(overload, &args) else {
                continue;
            };
            self.overloads[id].push(overload.id);
            found = Some(match found {
                None => result,
                Some(Type::Dyn) => Type::Dyn,
                Some(first) if first == result => first,
                Some(_) => Type::Dyn,
            });
        }
        found.unwrap_or_else(|| {
            let message = no_overload(function.name, &args, is_member, &self.unifier);
            self.report(offset, message);
            Type::Error
        })
    }

    fn logical(&mut self, id: usize, function: &'static Function, call: &Call, args: &[Type]) -> Type {
        self.overloads[id] = vec![function.overloads[0].id];
        let mut result = Type::Bool;
        for (argument, own) in call.args.iter().zip(args) {
            if !self.unifier.is_assignable(own, &Type::Bool) {
                self.report(argument.offset, mismatch(&Type::Bool, own));
                result = Type::Error;
            }
        }
        result
    }

    /// The result type of an overload, if the arguments fit it.
    fn matching(&mut self, overload: &Overload, args: &[Type]) -> Option<Type> {
        let mut params = BTreeMap::new();
        let expected: Vec<Type> = overload
            .args
            .iter()
            .map(|one| self.unifier.instantiate(one, &mut params))
            .collect();
        let result = self.unifier.instantiate(&overload.result, &mut params);
        let fits = self.unifier.are_assignable(args, &expected);
        fits.then(|| self.unifier.resolve(&result, false))
    }

    fn list(&mut self, items: &mut [ListItem]) -> Type {
        let mut element: Option<Type> = None;
        for item in items {
            self.check(&mut item.value);
            let own = self.entry_type(&item.value, item.optional);
            element = Some(self.join(element, own));
        }
        Type::list(element.unwrap_or_else(|| self.unifier.fresh()))
    }

    fn map(&mut self, entries: &mut [MapEntry]) -> Type {
        let (mut key, mut value): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let own = self.type_of(&entry.key);
            key = Some(self.join(key, own));
            self.check(&mut entry.value);
            let own = self.entry_type(&entry.value, entry.optional);
            value = Some(self.join(value, own));
        }
        let key = key.unwrap_or_else(|| self.unifier.fresh());
        let value = value.unwrap_or_else(|| self.unifier.fresh());
        Type::map(key, value)
    }

    /// The type that an entry adds to its list, map or struct: what an optional entry contains.
    fn entry_type(&mut self, value: &Expr, optional: bool) -> Type {
        let own = self.type_of(value);
        if !optional {
            return own;
        }
        let (inner, is_optional) = unwrap_optional(&own);
        if !is_optional && inner != Type::Dyn {
            self.report(value.offset, mismatch(&Type::optional(inner.clone()), &inner));
        }
        inner
    }

    /// The common type of the elements of a literal: `dyn` if they do not agree.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.unifier.is_assignable(&previous, &current) {
            return unify::most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn structure(&mut self, offset: usize, literal: &mut Struct) -> Type {
        let name = literal.type_name.clone();
        let object = self.environment.find_object(name.trim_start_matches('.'));
        let Some(object) = object else {
            self.report(
                offset,
                format!("undeclared reference to '{name}' (in container '')"),
            );
            return Type::Error;
        };
        for field in &mut literal.fields {
            self.check(&mut field.value);
            let own = self.entry_type(&field.value, field.optional);
            match object.field(&field.name) {
                None => self.report(field.offset, format!("undefined field '{}'", field.name)),
                Some(expected) if !self.unifier.is_assignable(&expected, &own) => {
                    let name = &field.name;
                    self.report(
                        field.offset,
                        format!(
                            "expected type of field '{name}' is '{expected}' but provided type is '{own}'"
                        ),
                    );
                }
                Some(_) => {}
            }
        }
        Type::Object(object)
    }

    fn comprehension(&mut self, fold: &mut Comprehension) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.type_of(&fold.range);
        let accumulator = self.types[fold.init.id].clone();
        let scopes = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        let (first, second) = self.element_types(&fold.range, &range, fold.variable2.is_some());
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.variable2 {
            self.scopes.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.expect(&fold.step, &accumulator);
        self.scopes.truncate(scopes + 1);
        self.check(&mut fold.result);
        self.scopes.truncate(scopes);
        self.type_of(&fold.result)
    }

    fn expect(&mut self, expr: &Expr, expected: &Type) {
        let own = self.type_of(expr);
        if !self.unifier.is_assignable(expected, &own) {
            let expected = self.unifier.resolve(expected, false);
            self.report(expr.offset, mismatch(&expected, &own));
        }
    }

    /// The types of the variables of a loop over this type.
    fn element_types(&mut self, expr: &Expr, range: &Type, has_two: bool) -> (Type, Type) {
        match range {
            Type::List(element) if has_two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => entry.as_ref().clone(),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.unifier.is_assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                self.report(
                    expr.offset,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn unwrap_optional(own: &Type) -> (Type, bool) {
    match own {
        Type::Optional(inner) => ((**inner).clone(), true),
        other => (other.clone(), false),
    }
}

pub(crate) fn mismatch(expected: &Type, found: &Type) -> String {
    format!("expected type '{expected}' but found '{found}'")
}

fn no_overload(name: &str, args: &[Type], is_member: bool, unifier: &Unifier) -> String {
    let shown: Vec<String> = args
        .iter()
        .map(|argument| unifier.resolve(argument, true).to_string())
        .collect();
    let signature = match shown.split_first() {
        Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
        _ => format!("({})", shown.join(", ")),
    };
    format!("found no matching overload for '{name}' applied to '{signature}'")
}

#[cfg(test)]
mod tests;
