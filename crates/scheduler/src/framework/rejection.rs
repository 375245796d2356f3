//! [`Rejection`]: why a plugin does not let a pod through (upstream: `Status` with a code other than Success).

use std::borrow::Cow;
use std::fmt;

/// What a rejection means for the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The pod does not fit, but might if pods were preempted.
    Unschedulable,
    /// The pod does not fit, and preemption would not help.
    UnschedulableAndUnresolvable,
    /// The scheduling process waits for something outside, such as a device driver.
    Pending,
    /// The plugin failed; the pod is tried again after a backoff.
    Error,
}

/// A rejection by a plugin, with the reasons that events and conditions show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub code: Code,
    /// The plugin that rejected the pod; the framework sets it.
    pub plugin: &'static str,
    first: Cow<'static, str>,
    more: Vec<Cow<'static, str>>,
}

impl Rejection {
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            plugin: "",
            first: reason.into(),
            more: Vec::new(),
        }
    }

    /// A rejection that preemption might resolve.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// A rejection that preemption cannot resolve.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// A failure of the plugin.
    pub fn error(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Error, reason)
    }

    /// The same rejection with a further reason.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.more.push(reason.into());
        self
    }

    /// The same failure with the step that failed; a rejection is left as it is.
    #[must_use]
    pub fn with_prefix(mut self, step: impl FnOnce() -> String) -> Self {
        if self.code == Code::Error {
            self.first = format!("{}: {}", step(), self.first).into();
        }
        self
    }

    #[must_use]
    pub fn by(mut self, plugin: &'static str) -> Self {
        self.plugin = plugin;
        self
    }

    pub fn reasons(&self) -> impl Iterator<Item = &Cow<'static, str>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Whether the pod does not fit, as opposed to a failure of the plugin.
    pub fn is_rejected(&self) -> bool {
        self.code != Code::Error
    }
}

/// The reasons as upstream prints a status: separated by commas.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first)?;
        for reason in &self.more {
            write!(f, ", {reason}")?;
        }
        Ok(())
    }
}
