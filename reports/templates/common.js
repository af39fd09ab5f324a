// common.js: what the scripts of all pages use.

const $ = (id) => document.getElementById(id);

function copyButton(button) {
  const code = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    let copied = false;
    try { await navigator.clipboard.writeText(code.textContent); copied = true; }
    catch { copied = document.execCommand("copy"); } // a file:// page may have no clipboard
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

