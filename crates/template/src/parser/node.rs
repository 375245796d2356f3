//! The nodes of a parsed template, and their text as error messages print it.

use std::fmt;

use super::number::Number;
use crate::quote;

/// The site of an error: a node with its position.
pub(crate) trait Site: fmt::Display {
    /// The byte of the source at which the node starts.
    fn pos(&self) -> usize;
}

/// Nodes in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) pos: usize,
    pub(crate) nodes: Vec<Node>,
}

/// A text, or an action that is executed.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Text),
    Action(Action),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(TemplateCall),
    Break(usize),
    Continue(usize),
}

/// Text outside of actions.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) pos: usize,
    pub(crate) text: String,
}

/// A pipeline whose value is printed, unless it declares variables.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) pos: usize,
    pub(crate) pipe: Pipe,
}

/// The condition, body and alternative of `if`, `with` and `range`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) keyword: &'static str,
    pub(crate) pipe: Pipe,
    pub(crate) list: List,
    pub(crate) else_list: Option<List>,
}

/// `{{template "name" pipeline}}`.
#[derive(Debug)]
pub(crate) struct TemplateCall {
    pub(crate) pos: usize,
    pub(crate) name: String,
    pub(crate) pipe: Option<Pipe>,
}

/// Commands that are connected by `|`, and the variables that get the value.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: usize,
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<Names>,
    pub(crate) cmds: Vec<Command>,
}

/// A function, method or value with its arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) pos: usize,
    pub(crate) args: Vec<Operand>,
}

/// A chain of names: `.a.b` or `$x.a.b`.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) pos: usize,
    pub(crate) names: Vec<String>,
}

/// An argument of a command.
#[derive(Debug)]
pub(crate) enum Operand {
    Dot(usize),
    Nil(usize),
    Bool(usize, bool),
    Number(Number),
    /// A string constant: its literal and its value.
    Text {
        pos: usize,
        quoted: String,
        text: String,
    },
    Field(Names),
    Variable(Names),
    /// Fields of a function's result or of a pipeline in parentheses.
    Chain {
        pos: usize,
        node: Box<Operand>,
        fields: Vec<String>,
    },
    Function {
        pos: usize,
        name: String,
    },
    Pipe(Pipe),
}

impl Site for List {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Site for Node {
    fn pos(&self) -> usize {
        match self {
            Self::Text(text) => text.pos,
            Self::Action(action) => action.pos,
            Self::If(branch) | Self::With(branch) | Self::Range(branch) => branch.pipe.pos,
            Self::Template(call) => call.pos,
            Self::Break(pos) | Self::Continue(pos) => *pos,
        }
    }
}

impl Site for Pipe {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Site for Command {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Site for Operand {
    fn pos(&self) -> usize {
        match self {
            Self::Dot(pos) | Self::Nil(pos) | Self::Bool(pos, _) => *pos,
            Self::Number(number) => number.pos,
            Self::Text { pos, .. } | Self::Chain { pos, .. } | Self::Function { pos, .. } => *pos,
            Self::Field(names) | Self::Variable(names) => names.pos,
            Self::Pipe(pipe) => pipe.pos,
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().try_for_each(|node| fmt::Display::fmt(node, f))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&text.text),
            Self::Action(action) => write!(f, "{{{{{}}}}}", action.pipe),
            Self::If(branch) | Self::With(branch) | Self::Range(branch) => fmt::Display::fmt(branch, f),
            Self::Template(call) => {
                write!(f, "{{{{template {}", quote::quote(&call.name))?;
                if let Some(pipe) = &call.pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            Self::Break(_) => f.write_str("{{break}}"),
            Self::Continue(_) => f.write_str("{{continue}}"),
        }
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{} {}}}}}{}", self.keyword, self.pipe, self.list)?;
        if let Some(list) = &self.else_list {
            write!(f, "{{{{else}}}}{list}")?;
        }
        f.write_str("{{end}}")
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, variable) in self.decl.iter().enumerate() {
            let separator = if i > 0 { ", " } else { "" };
            write!(f, "{separator}{}", variable.names.join("."))?;
        }
        if !self.decl.is_empty() {
            f.write_str(if self.is_assign { " = " } else { " := " })?;
        }
        for (i, command) in self.cmds.iter().enumerate() {
            let separator = if i > 0 { " | " } else { "" };
            write!(f, "{separator}{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            let separator = if i > 0 { " " } else { "" };
            f.write_str(separator)?;
            write_operand(arg, f)?;
        }
        Ok(())
    }
}

/// An operand inside of a command or a chain, where a pipeline has parentheses.
fn write_operand(operand: &Operand, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match operand {
        Operand::Pipe(pipe) => write!(f, "({pipe})"),
        _ => fmt::Display::fmt(operand, f),
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot(_) => f.write_str("."),
            Self::Nil(_) => f.write_str("nil"),
            Self::Bool(_, value) => write!(f, "{value}"),
            Self::Number(number) => f.write_str(&number.text),
            Self::Text { quoted, .. } => f.write_str(quoted),
            Self::Field(names) => names.names.iter().try_for_each(|name| write!(f, ".{name}")),
            Self::Variable(names) => f.write_str(&names.names.join(".")),
            Self::Chain { node, fields, .. } => {
                write_operand(node, f)?;
                fields.iter().try_for_each(|name| write!(f, ".{name}"))
            }
            Self::Function { name, .. } => f.write_str(name),
            Self::Pipe(pipe) => fmt::Display::fmt(pipe, f),
        }
    }
}
