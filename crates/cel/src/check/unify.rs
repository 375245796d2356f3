//! Unification: whether one type can be used as another, and what follows for inferred types.

use std::collections::BTreeMap;

use crate::cel_type::Type;

/// What is known about the inferred types.
#[derive(Debug, Default)]
pub(super) struct Unifier {
    /// By the number of a [`Type::Variable`].
    bindings: Vec<Option<Type>>,
    /// Earlier values of the bindings that were changed since an attempt began, to undo it.
    changes: Vec<(usize, Option<Type>)>,
}

impl Unifier {
    /// A type that is not known yet.
    pub(super) fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Variable(self.bindings.len() - 1)
    }

    /// A declared type with its parameters replaced by inferred types.
    pub(super) fn instantiate(&mut self, declared: &Type, params: &mut BTreeMap<&'static str, Type>) -> Type {
        match declared {
            Type::Param(name) => match params.get(name) {
                Some(found) => found.clone(),
                None => {
                    let fresh = self.fresh();
                    params.insert(name, fresh.clone());
                    fresh
                }
            },
            Type::List(element) => Type::list(self.instantiate(element, params)),
            Type::Map(entry) => Type::map(
                self.instantiate(&entry.0, params),
                self.instantiate(&entry.1, params),
            ),
            Type::Optional(inner) => Type::optional(self.instantiate(inner, params)),
            Type::Type(inner) => Type::Type(self.instantiate(inner, params).into()),
            other => other.clone(),
        }
    }

    /// Replaces inferred types by what is known of them. What is not known becomes `dyn` if `or_dyn`.
    pub(super) fn resolve(&self, own: &Type, or_dyn: bool) -> Type {
        match own {
            Type::Variable(number) => match &self.bindings[*number] {
                Some(bound) => self.resolve(bound, or_dyn),
                None if or_dyn => Type::Dyn,
                None => own.clone(),
            },
            Type::List(element) => Type::list(self.resolve(element, or_dyn)),
            Type::Map(entry) => Type::map(self.resolve(&entry.0, or_dyn), self.resolve(&entry.1, or_dyn)),
            Type::Optional(inner) => Type::optional(self.resolve(inner, or_dyn)),
            Type::Type(inner) => Type::Type(self.resolve(inner, or_dyn).into()),
            other => other.clone(),
        }
    }

    /// Whether a value of the one type may be used where the other is expected. If so, inferred types are bound.
    pub(super) fn is_assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.attempt(|unifier| unifier.unify(from, to))
    }

    /// The same for lists of types, pair by pair.
    pub(super) fn are_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        let mut pairs = from.iter().zip(to);
        from.len() == to.len() && self.attempt(|unifier| pairs.all(|(from, to)| unifier.unify(from, to)))
    }

    /// Keeps the bindings of an attempt that succeeds, and undoes those of one that fails.
    fn attempt(&mut self, unify: impl FnOnce(&mut Self) -> bool) -> bool {
        self.changes.clear();
        let fits = unify(self);
        if !fits {
            while let Some((number, earlier)) = self.changes.pop() {
                self.bindings[number] = earlier;
            }
        }
        fits
    }

    fn set(&mut self, number: usize, to: Type) {
        let earlier = self.bindings[number].replace(to);
        self.changes.push((number, earlier));
    }

    fn unify(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Variable(number) = to {
            match self.bind(*number, from) {
                Binding::Fits => return true,
                Binding::Conflicts => return false,
                Binding::Cyclic => {}
            }
        }
        if let Type::Variable(number) = from {
            return matches!(self.bind(*number, to), Binding::Fits);
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.unify(from, to)
            }
            (Type::Map(from), Type::Map(to)) => self.unify(&from.0, &to.0) && self.unify(&from.1, &to.1),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Object(from), Type::Object(to)) => from.name == to.name,
            _ => from == to,
        }
    }

    /// Binds an inferred type, or compares what it is bound to.
    fn bind(&mut self, number: usize, to: &Type) -> Binding {
        if *to == Type::Variable(number) {
            return Binding::Fits;
        }
        if let Some(bound) = self.bindings[number].clone() {
            if bound == *to {
                return Binding::Fits;
            }
            if !self.unify(to, &bound) {
                return Binding::Conflicts;
            }
            let general = most_general(to, &bound).clone();
            if !self.occurs(number, &general) {
                self.set(number, general);
            }
            return Binding::Fits;
        }
        if self.occurs(number, to) {
            return Binding::Cyclic;
        }
        self.set(number, to.clone());
        Binding::Fits
    }

    /// Whether an inferred type is a part of another type.
    fn occurs(&self, number: usize, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == number => true,
            Type::Variable(other) => {
                let bound = self.bindings[*other].as_ref();
                bound.is_some_and(|bound| self.occurs(number, bound))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.occurs(number, inner),
            Type::Map(entry) => self.occurs(number, &entry.0) || self.occurs(number, &entry.1),
            _ => false,
        }
    }
}

enum Binding {
    Fits,
    /// The inferred type is bound to a type that does not fit.
    Conflicts,
    /// The inferred type would contain itself.
    Cyclic,
}

/// Whether null may be used for a value of this type.
fn is_nullable(own: &Type) -> bool {
    matches!(
        own,
        Type::Null | Type::Object(_) | Type::Opaque(_) | Type::Optional(_) | Type::Duration | Type::Timestamp
    )
}

/// Of two types that fit each other, the more general one.
pub(super) fn most_general<'a>(first: &'a Type, second: &'a Type) -> &'a Type {
    if is_less_specific(first, second) {
        first
    } else {
        second
    }
}

fn is_less_specific(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Error | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Error | Type::Variable(_)) => false,
        (Type::List(first), Type::List(second)) | (Type::Optional(first), Type::Optional(second)) => {
            is_less_specific(first, second)
        }
        (Type::Map(first), Type::Map(second)) => {
            is_less_specific(&first.0, &second.0) && is_less_specific(&first.1, &second.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => first == second,
    }
}
