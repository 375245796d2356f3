//! Estimates of calls.

use super::{EntrySize, Estimator, Range};
use crate::ast::{Call, Expr, ExprKind, Literal, operator};
use crate::cel_type::Type;
use crate::library::cost::{self, PER_CHARACTER, PER_REGEX_CHARACTER};
use crate::macros::SORT_BY_KEYS;

/// The cost of a call without its arguments, and the size of its result.
struct CallEstimate {
    cost: Range,
    size: Option<Range>,
}

const ONE: Range = Range::fixed(1);
/// The bytes of an address.
const ADDRESS: Range = Range { min: 4, max: 16 };
/// The longest regular expression of a named format.
const MAX_FORMAT_REGEX: f64 = 128.0;

impl Estimator<'_> {
    pub(super) fn call(&mut self, expr: &Expr, call: &Call) -> Range {
        if &*call.function == "dyn" {
            return self.dyn_call(expr, call);
        }
        let costs: Vec<Range> = call.args.iter().map(|argument| self.cost(argument)).collect();
        let overloads = self.checked.overloads[expr.id].clone();
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let target = call
            .target
            .as_ref()
            .map_or(Range::ZERO, |target| self.cost(target));
        let mut total: Option<Range> = None;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let estimate = self.overload(expr, call, overload, &costs);
            total = Some(total.map_or(estimate.cost, |known| known.union(estimate.cost)));
            if let Some(own) = estimate.size {
                size = Some(size.map_or(own, |known| known.union(own)));
            }
            self.track_index(expr, call, overload, &mut size);
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if size.is_some() {
            self.sizes[expr.id] = size;
        }
        target.plus(total.unwrap_or(Range::ZERO))
    }

    fn dyn_call(&mut self, expr: &Expr, call: &Call) -> Range {
        let Some(argument) = call.args.first() else {
            return ONE;
        };
        let own = self.cost(argument);
        self.sizes[expr.id] = self.size(argument);
        self.entry_sizes[expr.id] = self.entry_size(argument);
        ONE.plus(own)
    }

    /// The path and the size of an element that an index selects.
    fn track_index(&mut self, expr: &Expr, call: &Call, overload: &str, size: &mut Option<Range>) {
        let step = match overload {
            "index_list" => "@items",
            "index_map" => "@values",
            _ => return,
        };
        let Some(container) = call.args.first() else {
            return;
        };
        *size = self.entry_size(container).map(|entry| entry.value);
        let mut path = self.path(container);
        path.push(step.into());
        self.paths[expr.id] = path;
    }

    fn overload(&mut self, expr: &Expr, call: &Call, overload: &str, costs: &[Range]) -> CallEstimate {
        let args = total(costs);
        if let Some(estimate) = self.library_call(call, overload) {
            return CallEstimate {
                cost: estimate.cost.plus(args),
                size: estimate.size,
            };
        }
        self.standard_call(expr, call, overload, costs)
    }

    /// The size of an argument by its declared schema or its expression.
    fn size_at(&self, call: &Call, at: usize) -> Range {
        call.args
            .get(at)
            .map_or(Range::UNKNOWN, |argument| self.size_or_unknown(argument))
    }

    fn target_size(&self, call: &Call) -> Range {
        call.target
            .as_ref()
            .map_or(Range::UNKNOWN, |target| self.size_or_unknown(target))
    }

    /// Functions of Kubernetes' libraries and of the extensions that it uses.
    fn library_call(&self, call: &Call, overload: &str) -> Option<CallEstimate> {
        let plain = |cost: Range| Some(CallEstimate { cost, size: None });
        let same_size = |size: Range| {
            Some(CallEstimate {
                cost: size.scaled(PER_CHARACTER),
                size: Some(size),
            })
        };
        match &*call.function {
            "check" => plain(Range::fixed(cost::AUTHORIZATION)),
            function if has_fixed_cost(function) => plain(ONE),
            "fieldSelector" | "labelSelector" => plain(selector(self.size_at(call, 0))),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => plain(self.traversal(call)?),
            "slice" | "lists.range" | "reverse" | "flatten" | "sort" | "distinct" | SORT_BY_KEYS => {
                self.list_call(call)
            }
            "url" => same_size(self.size_at(call, 0)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => same_size(self.target_size(call)),
            "replace" => self.replace(call),
            "split" => self.split(call),
            "join" => self.join(call),
            "find" | "findAll" => {
                let text = self.target_size(call);
                Some(CallEstimate {
                    cost: regex(text, self.size_at(call, 0)),
                    size: Some(Range {
                        min: 0,
                        max: text.max,
                    }),
                })
            }
            "ip" if overload == "cidr_ip" => plain(ONE),
            "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                plain(self.size_at(call, 0).scaled(PER_CHARACTER))
            }
            "ip.isCanonical" => plain(self.size_at(call, 0).scaled(2.0 * PER_CHARACTER)),
            "containsIP" | "containsCIDR" => plain(self.contains_address(call, overload)),
            "validate" => plain(
                self.size_at(call, 0)
                    .scaled(PER_CHARACTER)
                    .scaled(MAX_FORMAT_REGEX * PER_REGEX_CHARACTER),
            ),
            "sets.contains" | "sets.intersects" => plain(self.sets(call, 1.0)),
            "sets.equivalent" => plain(self.sets(call, 2.0)),
            operator::EQUALS => self.opaque_equality(call).and_then(plain),
            _ => None,
        }
    }

    fn opaque_equality(&self, call: &Call) -> Option<Range> {
        let [own, other] = &call.args[..] else { return None };
        let (own, other) = (self.own_type(own), self.own_type(other));
        match own {
            Type::Opaque(name)
                if own == other && *name != "kubernetes.URL" && *name != "kubernetes.NamedFormat" =>
            {
                Some(ONE)
            }
            _ => None,
        }
    }

    fn sets(&self, call: &Call, factor: f64) -> Range {
        ONE.plus(self.size_at(call, 0).times(self.size_at(call, 1)).scaled(factor))
    }

    fn contains_address(&self, call: &Call, overload: &str) -> Range {
        let mut total = ADDRESS.plus(ADDRESS).scaled(PER_CHARACTER);
        if &*call.function == "containsCIDR" {
            total = total.plus(ADDRESS.scaled(PER_CHARACTER)).plus(ONE);
        }
        if overload.ends_with("_string") {
            total = total.plus(self.size_at(call, 0).scaled(PER_CHARACTER));
        }
        total
    }

    /// The cost of reading a list: its items, with their characters.
    fn traversal(&self, call: &Call) -> Option<Range> {
        let target = call.target.as_ref()?;
        let size = self.size_or_unknown(target);
        let Type::List(element) = self.own_type(target) else {
            return Some(size.scaled(PER_CHARACTER));
        };
        let mut per_item = ONE;
        if matches!(**element, Type::String | Type::Bytes) {
            per_item = per_item.plus(self.element_size(target).scaled(PER_CHARACTER));
        }
        Some(size.times(per_item))
    }

    /// A function that creates a list.
    fn list_call(&self, call: &Call) -> Option<CallEstimate> {
        let literal = |at: usize, default: u64| match call.args.get(at).map(|argument| &argument.kind) {
            Some(ExprKind::Literal(Literal::Int(number))) => u64::try_from(*number).unwrap_or(0),
            _ => default,
        };
        let (size, factor) = match &*call.function {
            "slice" => {
                let end = literal(1, self.target_size(call).max);
                (Range::fixed(end.wrapping_sub(literal(0, 0))), 1.0)
            }
            "lists.range" => (Range::fixed(literal(0, u64::MAX)), 1.0),
            "reverse" => (self.target_size(call), 1.0),
            "flatten" if call.args.is_empty() => (self.target_size(call), 1.0),
            "flatten" => (self.target_size(call), literal(0, u64::MAX) as f64),
            "distinct" => (squared(self.target_size(call)), 2.0),
            "sort" => self.sort_size(call.target.as_ref()?),
            _ => self.sort_size(call.args.first()?),
        };
        let cost = size.scaled(factor).plus(Range::fixed(1 + cost::LIST));
        Some(CallEstimate {
            cost,
            size: Some(size),
        })
    }

    /// The comparisons of a sort, and the cost of each.
    fn sort_size(&self, keys: &Expr) -> (Range, f64) {
        let factor = match self.own_type(keys) {
            Type::List(element) if matches!(**element, Type::String | Type::Bytes) => 2.0 + PER_CHARACTER,
            _ => 2.0,
        };
        (squared(self.size_or_unknown(keys)), factor)
    }

    fn element_size(&self, list: &Expr) -> Range {
        let mut path = self.path(list);
        path.push("@items".into());
        self.declared_size(&path).unwrap_or(Range::UNKNOWN)
    }

    fn replace(&self, call: &Call) -> Option<CallEstimate> {
        call.target.as_ref()?;
        let (size, old, new) = (
            self.target_size(call),
            self.size_at(call, 0),
            self.size_at(call, 1),
        );
        let per_old = |size: u64, old: u64| (size as f64 / old as f64).ceil() as u64;
        let (count_max, kept_max) = match old.min {
            0 => (size.max.saturating_add(1), size.max),
            _ if new.max <= old.min => (0, size.max),
            _ => (per_old(size.max, old.min), 0),
        };
        let (count_min, kept_min) = match old.max {
            0 => (size.min.saturating_add(1), size.min),
            _ if old.max <= new.min => (0, size.min),
            _ => (per_old(size.min, old.max), 0),
        };
        let count = Range {
            min: count_min,
            max: count_max,
        };
        let kept = Range {
            min: kept_min,
            max: kept_max,
        };
        Some(CallEstimate {
            cost: size.scaled(2.0 * PER_CHARACTER),
            size: Some(count.times(new).plus(kept)),
        })
    }

    fn split(&self, call: &Call) -> Option<CallEstimate> {
        call.target.as_ref()?;
        let size = self.target_size(call);
        let max = match call.args.get(1).map(|argument| &argument.kind) {
            Some(ExprKind::Literal(Literal::Int(limit))) => limit.cast_unsigned(),
            _ => size.max,
        };
        Some(CallEstimate {
            cost: size.scaled(2.0 * PER_CHARACTER),
            size: Some(Range { min: 0, max }),
        })
    }

    fn join(&self, call: &Call) -> Option<CallEstimate> {
        let target = call.target.as_ref()?;
        let list = self.size_or_unknown(target);
        let mut size = list.times(self.element_size(target));
        if !call.args.is_empty() {
            let separators = Range {
                min: list.min.saturating_sub(1),
                max: list.max.saturating_sub(1),
            };
            size = size.plus(self.size_at(call, 0).times(separators));
        }
        Some(CallEstimate {
            cost: size.scaled(PER_CHARACTER),
            size: Some(size),
        })
    }

    fn standard_call(&mut self, expr: &Expr, call: &Call, overload: &str, costs: &[Range]) -> CallEstimate {
        let args = total(costs);
        let plain = |cost: Range| CallEstimate {
            cost: cost.plus(args),
            size: None,
        };
        match overload {
            "string_format" => plain(self.target_size(call).scaled(PER_CHARACTER)),
            "string_to_bytes" | "bytes_to_string" | "strings_quote" => self.conversion(call, overload, args),
            "starts_with_string" | "ends_with_string" => plain(self.size_at(call, 0).scaled(PER_CHARACTER)),
            "in_list" => plain(self.size_at(call, 1).scaled(1.0)),
            "matches_string" => plain(regex(self.target_size(call), self.size_at(call, 0))),
            "matches" => plain(regex(self.size_at(call, 0), self.size_at(call, 1))),
            "contains_string" => {
                let text = self.target_size(call).scaled(PER_CHARACTER);
                plain(text.times(self.size_at(call, 0).scaled(PER_CHARACTER)))
            }
            "logical_and" | "logical_or" => CallEstimate {
                cost: Range {
                    min: costs[0].min,
                    max: args.max,
                },
                size: None,
            },
            "conditional" => self.conditional(expr, call, costs),
            "add_string" | "add_bytes" | "add_list" => self.addition(expr, call, overload, args),
            _ if cost::compares_content(overload) => {
                let max = self.size_at(call, 0).max.min(self.size_at(call, 1).max);
                let min = u64::from(max > 0);
                plain(Range { min, max }.scaled(PER_CHARACTER))
            }
            _ => plain(ONE),
        }
    }

    fn conversion(&self, call: &Call, overload: &str, args: Range) -> CallEstimate {
        let size = self.size_at(call, 0);
        let (min, max) = match overload {
            "string_to_bytes" => (size.min, size.max.saturating_mul(4)),
            "bytes_to_string" => (size.min / 4, size.max),
            _ => (
                size.min.saturating_add(2),
                size.max.saturating_mul(2).saturating_add(2),
            ),
        };
        CallEstimate {
            cost: size.scaled(PER_CHARACTER).plus(args),
            size: Some(Range { min, max }),
        }
    }

    fn conditional(&mut self, expr: &Expr, call: &Call, costs: &[Range]) -> CallEstimate {
        let entry_sizes = [1, 2].map(|at| call.args.get(at).and_then(|branch| self.entry_size(branch)));
        self.entry_sizes[expr.id] = union(entry_sizes[0], entry_sizes[1]);
        CallEstimate {
            cost: costs[0].plus(costs[1].union(costs[2])),
            size: Some(self.size_at(call, 1).union(self.size_at(call, 2))),
        }
    }

    fn addition(&mut self, expr: &Expr, call: &Call, overload: &str, args: Range) -> CallEstimate {
        let size = self.size_at(call, 0).plus(self.size_at(call, 1));
        let entry_sizes = [0, 1].map(|at| call.args.get(at).and_then(|operand| self.entry_size(operand)));
        if let Some(entry_size) = union(entry_sizes[0], entry_sizes[1]) {
            self.entry_sizes[expr.id] = Some(entry_size);
        }
        let own = match overload {
            "add_list" => ONE,
            _ => size.scaled(PER_CHARACTER),
        };
        CallEstimate {
            cost: own.plus(args),
            size: Some(size),
        }
    }
}

fn total(costs: &[Range]) -> Range {
    costs.iter().fold(Range::ZERO, |total, cost| total.plus(*cost))
}

/// Whether a function of a library always costs 1.
fn has_fixed_cost(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

fn union(own: Option<EntrySize>, other: Option<EntrySize>) -> Option<EntrySize> {
    let (own, other) = own.zip(other)?;
    Some(EntrySize {
        is_list: own.is_list,
        key: own.key.union(other.key),
        value: own.value.union(other.value),
    })
}

fn squared(size: Range) -> Range {
    size.times(size)
}

fn regex(text: Range, pattern: Range) -> Range {
    let text = text.plus(ONE).scaled(PER_CHARACTER);
    text.times(pattern.scaled(PER_REGEX_CHARACTER))
}

fn selector(length: Range) -> Range {
    let requirements = length.scaled(0.5);
    let per_requirement = (cost::LIST + cost::STRUCT) as f64;
    Range::fixed(cost::LIST)
        .plus(length.scaled(PER_CHARACTER))
        .plus(requirements.scaled(per_requirement))
}
