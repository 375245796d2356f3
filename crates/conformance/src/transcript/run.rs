//! Asking: setup, steps in order, cleanup.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::Outcome;
use super::body;
use super::case::{Case, Step};
use crate::compare::{self, Difference};
use crate::normal::{Normal, Seen};
use crate::pace;
use crate::wire::{Answer, Client, Endpoint};

/// Asks one server; remembers which setups are done once and for all.
#[derive(Debug)]
pub struct Runner {
    client: Client,
    done: HashSet<String>,
}

const SETUP_AGAIN: Duration = Duration::from_millis(50);
const STEP_AGAIN: Duration = Duration::from_millis(100);

impl Runner {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            client: Client::new(endpoint),
            done: HashSet::new(),
        }
    }

    /// Runs a case; a broken connection fails the case, not the run.
    pub(super) fn outcome(&mut self, case: &Case, ignored: &[String]) -> Outcome {
        let differences = match self.run(case) {
            Ok(answers) => differences(case, &answers, ignored),
            Err(error) => vec![(String::new(), broken(&error))],
        };
        Outcome {
            id: case.id.clone(),
            area: case.area.clone(),
            differences,
        }
    }

    /// The answers to the steps of a case, with placeholders.
    pub fn run(&mut self, case: &Case) -> Result<Vec<Seen>> {
        for step in &case.setup {
            self.set_up(step)?;
        }
        let mut answers = Vec::new();
        let seen = self.steps(case, &mut answers);
        for step in &case.cleanup {
            // An object that is gone already is as good as deleted.
            let _ = self.send(step, &answers);
        }
        seen
    }

    fn set_up(&mut self, step: &Step) -> Result<()> {
        let key = format!("{step:?}");
        if step.once && self.done.contains(&key) {
            return Ok(());
        }
        let is_done = |answer: &Answer| answer.status < 300 || answer.status == 409;
        self.send_until(step, &[], SETUP_AGAIN, is_done)?;
        self.done.insert(key);
        pace::rest(Duration::from_millis(step.wait_ms));
        Ok(())
    }

    fn steps(&mut self, case: &Case, answers: &mut Vec<Value>) -> Result<Vec<Seen>> {
        let mut normal = Normal::new(pace::today());
        let mut seen = Vec::new();
        for step in &case.steps {
            let mut answer = self.step(step, answers, &mut normal)?;
            answers.push(std::mem::take(&mut answer.raw));
            if answer.body.is_object() {
                for path in &step.mask {
                    body::set(&mut answer.body, path, json!("<masked>"))?;
                }
            }
            if step.status_only {
                answer.body = Value::Null;
            }
            seen.push(answer);
        }
        Ok(seen)
    }

    fn step(&mut self, step: &Step, answers: &[Value], normal: &mut Normal) -> Result<Seen> {
        pace::rest(Duration::from_millis(step.wait_ms));
        normal.asked(step.body.as_deref().unwrap_or_default());
        let wanted = step.expect.as_ref().map(|expect| expect.status);
        let is_wanted = |answer: &Answer| wanted.is_none_or(|wanted| wanted == answer.status);
        let answer = self.send_until(step, answers, STEP_AGAIN, is_wanted)?;
        Ok(normal.answer(&answer, step.is_watch()))
    }

    /// Repeats a request while the answer is not the wanted one and the step's patience lasts.
    fn send_until(
        &mut self,
        step: &Step,
        answers: &[Value],
        pause: Duration,
        is_wanted: impl Fn(&Answer) -> bool,
    ) -> Result<Answer> {
        let patience = Duration::from_millis(step.retry_ms);
        let start = pace::now();
        loop {
            let answer = self.send(step, answers)?;
            if is_wanted(&answer) || start.elapsed() >= patience {
                return Ok(answer);
            }
            pace::rest(pause);
        }
    }

    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Answer> {
        Ok(self.client.ask(&body::request(step, answers)?)?)
    }
}

fn differences(case: &Case, answers: &[Seen], ignored: &[String]) -> Vec<(String, Difference)> {
    let mut found = Vec::new();
    for (number, (step, seen)) in case.steps.iter().zip(answers).enumerate() {
        let Some(expect) = &step.expect else { continue };
        let place = format!("step {number} {} {}", step.method, step.path);
        let differences = compare::answers(&expect.seen(), seen, ignored);
        found.extend(
            differences
                .into_iter()
                .map(|difference| (place.clone(), difference)),
        );
    }
    found
}

fn broken(error: &anyhow::Error) -> Difference {
    Difference {
        path: "/".to_owned(),
        wanted: json!("an answer"),
        got: json!(format!("{error:#}")),
    }
}
