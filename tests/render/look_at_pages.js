// Opens pages in a browser, each in two widths, light and dark, and prints what it saw as JSON.
// Usage: node look_at_pages.js BROWSER PAGE...   (NODE_PATH names where the packages are; where
// PICTURES names a folder, a picture of each page is put there)
const fs = require('fs');
const path = require('path');
const puppeteer = require('puppeteer-core');

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const [browserPath, ...pages] = process.argv.slice(2);
const folder = process.env.PICTURES;
const WIDTHS = [1280, 390];
const SCHEMES = ['light', 'dark'];

// Runs in the page: whatever is seen of it there.
function seen() {
  const root = document.documentElement;
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = getComputedStyle(document.body).backgroundColor;
  const texts = [...document.querySelectorAll('svg text')];
  const rect = (element) => element.getBoundingClientRect();
  return {
    title: document.title,
    hit: Boolean(window.hit),
    scripts: document.querySelectorAll('script, img, iframe, object, embed, link').length,
    handlers: [...document.querySelectorAll('*')].filter((each) =>
      [...each.attributes].some((attribute) => attribute.name.startsWith('on'))).length,
    pageWidth: root.scrollWidth,
    windowWidth: root.clientWidth,
    scheme: matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
    plots: document.querySelectorAll('svg.plot').length,
    plotTexts: texts.length,
    leastPlotContrast: Math.min(99, ...texts.map((each) => contrast(getComputedStyle(each).fill, paper))),
    leastPlotTextPx: Math.min(99, ...texts.map((each) => rect(each).height)),
    smallestPlotPx: Math.min(9999, ...[...document.querySelectorAll('svg.plot')].map((each) => rect(each).width)),
    verdictTop: rect(document.querySelector('h1')).top,
    causeBottom: rect(document.querySelector('.cause')).bottom,
  };
}

// Runs in the page: whether the keyboard's focus is somewhere, and shows.
function focused() {
  const each = document.activeElement;
  const style = getComputedStyle(each);
  const box = each.getBoundingClientRect();
  return {
    tag: each.tagName.toLowerCase(),
    href: each.getAttribute('href') || '',
    shows: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.bottom > 0,
  };
}

// Runs in the page: how many folded parts there are, and which of them are not to be seen.
function unfolded() {
  const folded = [...document.querySelectorAll('details:not([open]) > :not(summary)')];
  const shows = (each) => each.checkVisibility({contentVisibilityAuto: true}) && each.getBoundingClientRect().height > 0;
  return {folded: folded.length, hidden: folded.filter((each) => !shows(each)).map((each) => each.outerHTML.slice(0, 200))};
}

async function tabbed(page, presses) {
  const stops = [];
  for (let press = 0; press < presses; press += 1) {
    await page.keyboard.press('Tab');
    stops.push(await page.evaluate(focused));
  }
  return stops;
}

async function opened(page) {
  const summary = await page.$('details:not([open]) > summary');
  if (!summary) return null;
  await summary.focus();
  await page.keyboard.press('Enter');
  return summary.evaluate((each) => each.parentElement.open);
}

async function looked(browser, file, width, scheme) {
  const page = await browser.newPage();
  const said = [];
  const asked = [];
  page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`error: ${error}`));
  page.on('dialog', (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => asked.push(request.url()));
  await page.setViewport({width, height: 900});
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
  await page.goto(`file://${file}`);
  const name = path.basename(file, '.html');
  const look = {page: name, width, wanted: scheme, ...(await page.evaluate(seen))};
  if (folder) await page.screenshot({path: path.join(folder, `${name}-${width}-${scheme}.png`), fullPage: true});
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run());
  look.accessibility = found.violations.map((each) => `${each.impact} ${each.id}: ${each.nodes[0].html}`);
  look.rulesPassed = found.passes.length;
  look.stops = await tabbed(page, 6);
  look.opens = await opened(page);
  await page.emulateMediaType('print');
  // What becomes visible is laid out with the next frame.
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  look.print = await page.evaluate(unfolded);
  await page.close();
  return {...look, said, asked: asked.filter((url) => url !== `file://${file}`)};
}

(async () => {
  const browser = await puppeteer.launch({executablePath: browserPath, args: ['--no-sandbox']});
  const looks = [];
  for (const file of pages) {
    for (const width of WIDTHS) {
      for (const scheme of SCHEMES) looks.push(await looked(browser, file, width, scheme));
    }
  }
  await browser.close();
  process.stdout.write(JSON.stringify(looks));
})();
