//! The path of the value being visited: a linked list on the stack, formatted only for a violation. A path may be as
//! long as the request body, and an object have many values below it.

use std::fmt::{self, Write};

/// One step from the parent path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The text of the first path.
    Root(&'a str),
    /// A field: `.name`, without the dot at the beginning of a path.
    Field(&'a str),
    /// An item of a list: `[0]`.
    Index(usize),
    /// A key of a map: `[name]`.
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(super) fn root(text: &'a str) -> Self {
        Path {
            parent: None,
            step: Step::Root(text),
        }
    }

    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        self.then(Step::Field(name))
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
        }
    }

    fn write(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(text);
        }
        let written = match self.step {
            Step::Root(root) => text.write_str(root),
            Step::Field(name) if text.is_empty() => text.write_str(name),
            Step::Field(name) => write!(text, ".{name}"),
            Step::Index(at) => write!(text, "[{at}]"),
            Step::Key(key) => write!(text, "[{key}]"),
        };
        written.expect("a string takes any text");
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}
