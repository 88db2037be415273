//! A browser without a window, by the DevTools protocol over a pipe: messages in JSON, a NUL behind each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::process::{Process, as_ordinary_user, find};
use crate::{Deadline, require};

/// Chromium with one page. Whatever the page prints or throws is an error of the next call.
pub struct Browser {
    process: Process,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    complaints: Vec<String>,
}

/// Size of a page in CSS pixels, and its colours.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// True for a phone, which scales pages that do not fit.
    pub is_phone: bool,
    /// True for light text on dark ground.
    pub is_dark: bool,
}

impl Browser {
    /// Starts a browser with an empty page; `home` is open to everyone. Skips where there is none.
    pub fn start(home: &Path) -> Result<Self> {
        require!(find("chromium").is_some(), "chromium is not installed");
        let mut command = as_ordinary_user("sh", home);
        // The browser reads from descriptor 3 and writes to 4.
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >&2", "sh"]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--no-first-run", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--autoplay-policy=no-user-gesture-required", "--hide-scrollbars", "--mute-audio"]);
        command.args(["--remote-debugging-pipe", "about:blank"]);
        let (mut process, input) = Process::start_with_input(&command)?;
        let output = BufReader::new(process.take_stdout()?);
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                // The test may have ended, and nobody reads any more.
                sender.send(serde_json::from_slice(&message).unwrap_or_default()).ok();
            }
        });
        let mut browser =
            Self { process, input, messages, session: None, last_id: 0, complaints: Vec::new() };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", attach)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({"url": url}))?;
        ensure!(answer["errorText"].is_null(), "{url} cannot be opened: {answer}");
        Ok(())
    }

    /// Value of an expression, which may be a promise.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", asked)?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression} failed: {answer}");
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str, deadline: Deadline) -> Result<()> {
        deadline.wait_for(expression, || match self.evaluate(expression) {
            Ok(Value::Bool(true)) => Ok(Some(())),
            // The page before may be leaving.
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Presses a key and releases it.
    pub fn press(&mut self, key: &str, code: u32) -> Result<()> {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Types text into what has the focus.
    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({"text": text})).map(drop)
    }

    /// Sets size and colours.
    pub fn look(&mut self, look: Look) -> Result<()> {
        let Look { width, height, is_phone, is_dark } = look;
        let size = json!({"width": width, "height": height, "mobile": is_phone, "deviceScaleFactor": 1});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media).map(drop)
    }

    /// Keeps a picture of the whole page as PNG.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        let answer = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}))?;
        let data = answer["data"].as_str().context("no picture")?;
        std::fs::write(file, decode_base64(data)?).with_context(|| file.display().to_string())
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).with_context(|| format!("{method}: {}", self.process.log()))?;
        let deadline = Deadline::seconds(60.0);
        loop {
            let message = match self.messages.recv_timeout(deadline.left()) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => bail!("{method} was not answered: {}", self.process.log()),
                Err(RecvTimeoutError::Disconnected) => bail!("the browser ended: {}", self.process.log()),
            };
            if message["id"] == self.last_id {
                ensure!(self.complaints.is_empty(), "the page complains: {:?}", self.complaints);
                ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
            self.note(&message);
        }
    }

    /// Notes what a page prints, throws or is refused by its policy.
    fn note(&mut self, message: &Value) {
        if let Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") =
            message["method"].as_str()
        {
            self.complaints.push(message["params"].to_string());
        }
    }
}

/// Decodes base64 (RFC 4648 section 4).
fn decode_base64(text: &str) -> Result<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=').bytes().map(|byte| {
        let digit = DIGITS.iter().position(|digit| *digit == byte);
        digit.map(|digit| digit as u32).with_context(|| format!("byte {byte} is not base64"))
    });
    let digits = digits.collect::<Result<Vec<u32>>>()?;
    let group = |group: &[u32]| {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    Ok(digits.chunks(4).flat_map(group).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo"), ("/+8=", &[255, 239])]
        {
            assert_eq!(decode_base64(text).unwrap(), bytes);
        }
        assert!(decode_base64("a b").is_err());
    }
}
