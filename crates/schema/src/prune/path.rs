//! The path of the node being pruned: a linked list on the stack, formatted only for an error.

use std::fmt::Write;

use crate::shape::Shape;

/// One step from the parent path, and the enclosing struct.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    holder: &'a Shape,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    /// A field of a struct.
    Member(&'a str),
    Index(usize),
    /// A key of a map.
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(super) fn root(holder: &'a Shape) -> Self {
        Path {
            parent: None,
            step: Step::Root,
            holder,
        }
    }

    /// The same path, now inside a struct.
    pub(super) fn inside(&self, holder: &'a Shape) -> Path<'a> {
        Path { holder, ..*self }
    }

    pub(super) fn member<'b>(&'b self, name: &'b str) -> Path<'b> {
        self.then(Step::Member(name))
    }

    pub(super) fn index(&self, at: usize) -> Path<'_> {
        self.then(Step::Index(at))
    }

    pub(super) fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        self.then(Step::Key(key))
    }

    fn then<'b>(&'b self, step: Step<'b>) -> Path<'b> {
        Path {
            parent: Some(self),
            step,
            holder: self.holder,
        }
    }

    /// The path of a key in the object here, as strict errors name it: `spec.containers[0].image`.
    pub(super) fn text_of(&self, key: &str) -> String {
        let mut text = String::new();
        self.write(&mut text);
        dotted(&mut text, key);
        text
    }

    fn write(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(text);
        }
        match self.step {
            Step::Root => {}
            Step::Member(name) | Step::Key(name) => dotted(text, name),
            Step::Index(at) => write!(text, "[{at}]").expect("a string takes any text"),
        }
    }

    /// The error for a value of the wrong type here. Such paths have fields only, no list indexes or map keys, start with
    /// the struct that holds the field, and include inlined types.
    pub(super) fn mismatch(&self, actual: &str, expected: &str) -> String {
        let mut fields = String::new();
        self.write_fields(&mut fields);
        match fields.is_empty() {
            true => format!("json: cannot unmarshal {actual} into Go value of type {expected}"),
            false => format!(
                "json: cannot unmarshal {actual} into Go struct field {}.{fields} of type {expected}",
                self.holder.type_name()
            ),
        }
    }

    fn write_fields(&self, text: &mut String) {
        let Some(parent) = self.parent else { return };
        parent.write_fields(text);
        if let Step::Member(name) = self.step {
            let inlined = parent.holder.inlining_path(name);
            inlined
                .into_iter()
                .chain([name])
                .for_each(|part| dotted(text, part));
        }
    }
}

fn dotted(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}
